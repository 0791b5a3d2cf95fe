#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
{ # The shell reads to the end of this bracket before it does anything: of a script that was cut off nothing is done.
# May this node take work? Reads the hardware here with whatever tools there are, sends what they print to a Pratique
# server, asks for its decision, and ends with that decision's exit code. Needs a POSIX shell and curl, nothing else.

set +x # a trace would show tokens
set -eu
umask 077
LC_ALL=C # [a-z] means 26 letters, and every tool speaks English
export LC_ALL

LIMIT=20        # seconds that one tool may take; what hangs longer is killed or, where even that fails, left behind
TOOL_MOST=65536 # blocks of 512 bytes (in some shells, of 1,024) that one tool may write: 32 MiB
LOG_MOST=4194304 # bytes of the kernel log that are sent, the newest: a quarter of what a server takes by default
ANSWER_LIMIT=60 # seconds that one request may take, and no longer than --wait lasts
ANSWER_LEAST=10 # seconds that it gets all the same
POLL=5          # seconds until the next try when the server is away

usage() {
    cat <<'END'
Usage: bootstrap.sh [OPTIONS] [NODE]

May NODE (by default the name of this host) take work? Reports, asks, and ends with the code of the decision.

  --url URL               address of the server                                   [PRATIQUE_URL]
  --token-file FILE       file with the node's token                              [PRATIQUE_TOKEN_FILE, PRATIQUE_TOKEN]
  --join-token-file FILE  where --token-file names no file yet, or one with a token that is refused: trade this join
                          token for a token, and keep it there
  --provider-id ID        id of the instance; left out, EC2 is asked by its DMI
  --profile NAME          what a node of this sort should carry; left out, EC2 is asked by its DMI
  --zone ZONE             where the node stands
  --wait DURATION         report and ask again until admitted, for so long: 90s, 15m, 1h. Left out: once
  --gap SECONDS           pause between two rounds (default 30, the server's default gap between two passes)
  --ca-file FILE          certificates, or a folder of them, to trust in place of the usual ones  [PRATIQUE_CA_FILE]
  --root DIR              read /proc and /sys below DIR (a copy of another machine's)

Exit codes:
  0   admitted
  10  a device or the node is in quarantine
  11  nothing but passes is lacking: report and ask again
  12  it is not certain which devices these are
  13  any other refusal
  20  no decision: the server cannot be reached or cannot answer
  2   usage     3  not authorised     4  the hardware here could not be read

Only 0 means yes. A token is read from a file or a variable and never stands on a command line.
END
}

say() { printf 'bootstrap.sh: %s\n' "$*" >&2 || :; } # the code counts, also where nobody can read why

end() { # CODE SENTENCE...
    code=$1
    shift
    say "$*"
    exit "$code"
}

# --- what is to be done ---------------------------------------------------------------------------------------------

read_arguments() {
    unset token # nothing that it is set to is in the environment of a tool
    url=${PRATIQUE_URL:-} token_file=${PRATIQUE_TOKEN_FILE:-} ca_file=${PRATIQUE_CA_FILE:-}
    token=$(printf '%s\n' "${PRATIQUE_TOKEN:-}" | bare)
    join_file='' provider_id='' profile='' zone='' wait=0 gap=30 root='' node=''
    unset PRATIQUE_TOKEN # no tool that is started here has any use for it
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) usage && exit 0 ;;
            --*=*) option=${1%%=*} value=${1#*=} && shift ;;
            --?*) [ $# -gt 1 ] || end 2 "$1 needs a value; --help tells more" && option=$1 value=$2 && shift 2 ;;
            -*) end 2 "there is no option $1; --help tells which there are" ;;
            *) [ -z "$node" ] || end 2 "one node at a time: $node or $1?" && node=$1 && shift && continue ;;
        esac
        case $option in
            --url) url=$value ;;
            --token-file) token_file=$value token='' ;;
            --join-token-file) join_file=$value ;;
            --provider-id) provider_id=$value ;;
            --profile) profile=$value ;;
            --zone) zone=$value ;;
            --wait) wait=$value ;;
            --gap) gap=$value ;;
            --ca-file) ca_file=$value ;;
            --root) root=$value ;;
            *) end 2 "there is no option $option; --help tells which there are" ;;
        esac
    done
    check_arguments
}

bare() { sed 's/[[:space:]]*$//'; } # texts without the blanks and carriage returns that editors leave behind them

check_arguments() {
    command -v curl >/dev/null || end 2 "curl is not here, and nothing works without it"
    case $url in
        http://?* | https://?*) url=${url%/} ;;
        *) end 2 "where is the server? give --url http://… or https://…, or set PRATIQUE_URL" ;;
    esac
    [ -n "$node" ] || node=$(uname -n)
    case $node in
        '' | *[!A-Za-z0-9._-]*) end 2 "'$node' is no name of a node: letters, digits, dots, dashes, underscores" ;;
    esac
    [ "${#node}" -le 253 ] || end 2 "'$node' is no name of a node: it is longer than 253 characters"
    [ -n "$provider_id" ] || provider_id=$(find_instance)
    [ -n "$provider_id" ] || end 2 "which instance is this? give --provider-id"
    [ -n "$profile" ] || profile=$(find_profile)
    [ -n "$profile" ] || end 2 "what should this node carry? give --profile"
    for text in "$provider_id" "$profile" "$zone"; do
        case $text in
            *[!\ -~]* | *[\"\\]*) end 2 "'$text' is no id or name of the kind that is meant here" ;;
        esac
    done
    case $gap in '' | *[!0-9]*) end 2 "--gap takes seconds, not '$gap'" ;; esac
    seconds=$(seconds_of "$wait") || end 2 "--wait takes a length of time like 90s, 15m or 1h, not '$wait'"
    [ -z "$ca_file" ] || [ -r "$ca_file" ] || end 2 "the certificates $ca_file cannot be read"
    read_boot_id
}

# An EC2 instance on Nitro shows its id and type in its DMI, also to others than root:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
# Elsewhere the system's UUID names a virtual machine's life, and a machine of one's own; only root can read it.
find_instance() {
    tag=$(dmi board_asset_tag)
    case $tag in
        *[!i0-9a-f-]*) ;;
        i-????????????????? | i-????????) printf '%s' "$tag" && return ;;
    esac
    uuid=$(dmi product_uuid | tr ABCDEF abcdef)
    case $uuid in
        *[!0-9a-f-]*) ;;
        00000000-0000-* | ffffffff-ffff-*) ;; # what firmware puts there that was never set up
        ????????-????-????-????-????????????) printf 'dmi:%s' "$uuid" ;;
    esac
}

find_profile() {
    case $(dmi sys_vendor) in 'Amazon EC2') dmi product_name ;; esac
}

dmi() { first_line "$root/sys/devices/virtual/dmi/id/$1"; } # NAME

first_line() { # FILE
    line=''
    if [ -r "$1" ]; then { IFS= read -r line || :; } 2>/dev/null <"$1"; fi
    printf '%s' "$line"
}

# https://www.kernel.org/doc/html/latest/admin-guide/sysctl/kernel.html#random
read_boot_id() {
    boot_id=$(first_line "$root/proc/sys/kernel/random/boot_id")
    [ -n "$boot_id" ] || end 4 "$root/proc/sys/kernel/random/boot_id cannot be read: which boot is this?"
    # https://man7.org/linux/man-pages/man5/proc_stat.5.html: the seconds between 1970 and the boot
    booted_at=''
    btime=$(sed -n 's/^btime \([0-9][0-9]*\)$/\1/p' "$root/proc/stat" 2>/dev/null) || btime=''
    if [ -n "$btime" ]; then booted_at=$(date -u -d "@$btime" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null) || booted_at=''; fi
}

clock() { # seconds of the clock since boot, which nobody sets: https://man7.org/linux/man-pages/man5/proc_uptime.5.html
    up=$(first_line /proc/uptime)
    up=${up%%.*}
    case $up in '' | *[!0-9]*) date +%s ;; *) printf '%s' "$up" ;; esac
}

seconds_of() { # DURATION
    rest=$1 total=0
    case $rest in '') return 1 ;; *[smhd]) ;; *) rest=${rest}s ;; esac
    while [ -n "$rest" ]; do
        number=${rest%%[!0-9]*}
        rest=${rest#"$number"}
        case $number in '' | ?????????*) return 1 ;; esac
        while [ "${number#0}" != "$number" ] && [ "$number" != 0 ]; do number=${number#0}; done # 010 is no octal here
        case $rest in
            s*) unit=1 ;; m*) unit=60 ;; h*) unit=3600 ;; d*) unit=86400 ;;
            *) return 1 ;;
        esac
        rest=${rest#?}
        total=$((total + number * unit))
    done
    printf '%s' "$total"
}

# --- who asks -------------------------------------------------------------------------------------------------------

make_scratch() {
    scratch='' kept='' awaited=''
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    scratch=$(mktemp -d 2>/dev/null) || { scratch=${TMPDIR:-/tmp}/pratique.$$ && mkdir "$scratch"; } ||
        end 4 "there is no room for temporary files in ${TMPDIR:-/tmp}"
    check_room
    # curl runs in the scratch folder.
    if [ -d "$ca_file" ]; then ca_folder=$(cd "$ca_file" && pwd); elif [ -n "$ca_file" ]; then
        cat "$ca_file" >"$scratch/ca"
    fi
}

# A file on a full disk can be made, and loses what is written to it: a log or an answer that is cut says too little.
check_room() {
    { printf '%65536s' '' >"$scratch/room"; } 2>/dev/null && return 0
    end 4 "the disk of ${TMPDIR:-/tmp}, where temporary files go, is full"
}

# shellcheck disable=SC2317 # the trap calls it
clean_up() {
    if [ -n "$awaited" ]; then kill "$awaited" 2>/dev/null || :; fi
    stop_tools
    if [ -n "$kept" ]; then rm -f "$kept"; fi
    [ -n "$scratch" ] || return 0
    cd /
    # What was just killed may still be writing its last file there.
    rm -rf "$scratch" 2>/dev/null || { nap && rm -rf "$scratch" 2>/dev/null; } || :
}

check_token() { # TOKEN WHERE
    case $1 in
        prq_*[!A-Za-z0-9_-]*) end 2 "$2 must hold one token and nothing else" ;;
        prq_?*) ;;
        *) end 2 "$2 holds no token" ;;
    esac
}

find_token() {
    is_of_file=''
    if [ -z "$token" ]; then read_token_file; fi
    if [ -n "$token" ]; then
        check_token "$token" "${token_file:-PRATIQUE_TOKEN}"
    elif [ -n "$join_file" ]; then
        join
    else
        end 2 "who asks? give --token-file, or set PRATIQUE_TOKEN_FILE or PRATIQUE_TOKEN"
    fi
}

read_token_file() {
    if [ -z "$token_file" ] || [ ! -s "$token_file" ]; then return 0; fi
    token=$(first_line "$token_file" | bare)
    is_of_file=yes
}

join() {
    [ -n "$token_file" ] || end 2 "where shall the new token be kept? give --token-file"
    [ -r "$join_file" ] || end 2 "the join token $join_file cannot be read"
    before=$token
    token=$(first_line "$join_file" | bare)
    check_token "$token" "$join_file"
    make_place
    printf '{"node": "%s", "provider_id": "%s", "boot_id": "%s", "profile": "%s"}' \
        "$node" "$provider_id" "$boot_id" "$profile" >"$scratch/trade"
    until trade; do
        say "$node: waiting to join: $(trouble)"
        if is_over; then end 20 "this node could not join in time"; fi
        rest_for "$POLL"
    done
    is_of_file=''
}

# Before the trade: a token that cannot be kept is lost. Two that join at once do not share a place.
make_place() {
    kept=$(mktemp "$token_file.XXXXXX" 2>/dev/null) || kept=$token_file.$$.new
    if ! { printf '%0200d\n' 0 >"$kept"; } 2>/dev/null; then end 2 "$kept cannot be written: is its disk full?"; fi
}

trade() { # sets the token; false when nobody answered who could
    ask join -H 'Content-Type: application/json' --data-binary @trade
    case $status in
        201) keep_token && return 0 ;;
        401 | 403 | 409 | 400 | 422) is_ours || return 1 ;;
        *) return 1 ;;
    esac
    case $status in 400 | 422) end 2 "this node cannot join: $(detail)" ;; esac
    if is_problem already_joined && is_joined_beside; then return 0; fi
    end 3 "this node may not join: $(detail)"
}

keep_token() {
    token=$(sed -n 's/.*"token": *"\(prq_node_[A-Za-z0-9_-]*\)".*/\1/p' "$scratch/answer")
    check_token "$token" "the answer of $url"
    if ! { printf '%s\n' "$token" >"$kept"; } 2>/dev/null; then end 4 "$kept cannot be written: its disk is full"; fi
    mv -f "$kept" "$token_file"
    kept=''
    say "$node: joined; its token is in $token_file"
}

# Another run of this script that joins at the same time has the token, or is about to.
is_joined_beside() {
    tries=10
    while [ "$tries" -gt 0 ]; do
        tries=$((tries - 1)) found=''
        if [ -s "$token_file" ]; then found=$(first_line "$token_file"); fi
        case $found in
            '' | "$before") nap ;;
            *) token=$found && check_token "$token" "$token_file" && return 0 ;;
        esac
    done
    return 1
}

# --- what the server says -------------------------------------------------------------------------------------------

ask() { # PATH CURL-OPTIONS...; sets status, 000 when nobody answered, and leaves the answer
    path=$1
    shift
    rm -f "$scratch/answer" "$scratch/status"
    limit=$ANSWER_LIMIT
    if [ "$seconds" -gt 0 ]; then limit=$((deadline - $(clock))); fi
    if [ "$limit" -gt "$ANSWER_LIMIT" ]; then limit=$ANSWER_LIMIT; fi
    if [ "$limit" -lt "$ANSWER_LEAST" ]; then limit=$ANSWER_LEAST; fi
    # Proxies of the environment lead to the internet, and a token must not go there. Nothing is followed elsewhere.
    # The token goes to curl through a pipe: everybody on the host can read command lines, and files may be left behind.
    if [ -n "$ca_folder" ]; then set -- --capath "$ca_folder" "$@"; elif [ -n "$ca_file" ]; then
        set -- --cacert ca "$@"
    fi
    # In the background, because a shell hears no signal before what runs in front of it has ended.
    printf 'header = "Authorization: Bearer %s"\n' "$token" | (
        cd "$scratch"
        exec curl -q -sS --noproxy '*' --connect-timeout 10 --max-time "$limit" \
            --config - -o answer -w '%{http_code}' "$@" "$url/v1/$path" >status 2>curl.err
    ) &
    if wait_for $!; then status=$(first_line "$scratch/status"); else status=000; fi
}

wait_for() { # PID; ends at once when the script is told to end, and what it waits for with it
    awaited=$1 ended=0
    wait "$awaited" || ended=$?
    awaited=''
    return "$ended"
}

detail() { # what a problem document says to people, on one line
    sed -n 's/"errors": *\[.*//; s/.*"detail": *"\(.*\)", *"instance".*/\1/p' "$scratch/answer" 2>/dev/null | head -n 1
}

is_problem() { # CODE
    grep -q "\"code\": *\"$1\"" "$scratch/answer" 2>/dev/null
}

# A refusal by the server itself. What a proxy in between refuses says nothing of this node.
refused() { # sets code or ends
    if ! is_problem unauthenticated && ! is_problem forbidden; then code=20 line=$(trouble) && return 0; fi
    # What is in the file may be left over from an earlier instance, whose image or disk this one has.
    if [ -z "$join_file" ] || [ -z "$is_of_file" ]; then end 3 "not authorised: $(detail)"; fi
    say "$node: the token in $token_file is refused: $(detail)"
    join
    code=20 line='joined anew' is_anew=yes
}

is_ours() { # a problem document, as no proxy in between makes them
    is_problem '[a-z_]*' && [ -n "$(detail)" ]
}

trouble() { # why there is no usable answer
    told=$(detail)
    if [ "$status" = 000 ]; then told=$(head -n 1 "$scratch/curl.err"); fi
    printf '%s' "${told:-$(strange)}"
}

strange() { printf '%s' "$url answered $status in a way no Pratique server does"; }

# --- what the tools say ---------------------------------------------------------------------------------------------

# Each tool runs in the background: one whose driver hangs cannot be killed, and must not be waited for either.
start_tool() { # PART COMMAND...
    part=$1
    shift
    command -v "$1" >/dev/null || return 0
    started="$started $part"
    (
        # A group of its own where that can be had, so that what a tool has started ends with it.
        apart=$(command -v setsid) || apart=''
        # shellcheck disable=SC2016 # the inner shell expands them
        ${apart:+"$apart"} sh -c 'echo $$ >"$0"; ulimit -f "$1" 2>/dev/null; shift; exec "$@"' \
            "$look/$part.pid" "$TOOL_MOST" "$@" >"$look/$part.out" 2>"$look/$part.err" </dev/null || :
        kill_group "$(first_line "$look/$part.pid")" || :
        : >"$look/$part.done"
    ) >/dev/null 2>&1 &
}

wait_for_tools() {
    ends=$(($(clock) + LIMIT))
    for part in $started; do
        while [ ! -e "$look/$part.done" ] && [ "$(clock)" -lt "$ends" ]; do nap; done
    done
    stop_tools
}

nap() { sleep 0.1 2>/dev/null || sleep 1; }

stop_tools() {
    for part in ${started:-}; do
        [ ! -e "$look/$part.done" ] || continue
        pid=$(first_line "$look/$part.pid")
        kill_group "$pid" || kill -9 "$pid" 2>/dev/null || :
    done
}

kill_group() { # PID; of -1 it would be everybody's group
    case $1 in '' | 0 | 1 | *[!0-9]*) return 1 ;; esac
    kill -9 "-$1" 2>/dev/null
}

take() { # PART CHECKS...: makes a part of what a tool printed, or says that its checks could not be made
    part=$1
    shift
    case " $started " in *" $part "*) ;; *) return 1 ;; esac
    if [ ! -e "$look/$part.done" ]; then
        why="its tool was not done within $LIMIT s"
    elif is_answer; then
        mv "$look/$part.out" "$scratch/parts/$part"
        return 0
    else
        why=$(printable "$look/$part.out" "$look/$part.err")
        why="its tool ${why:+said: }${why:-printed nothing}"
    fi
    say "$part: $why"
    unknown "$@"
    return 1
}

# nvidia-smi prints its complaints where the document should be, "No devices were found", or before it. That it cannot
# reach a GPU is an answer by itself: it may list nobody then.
is_answer() {
    case $part in
        nvidia_smi_xml) grep -qi -e '^<' -e '^unable to determine the device handle for gpu' "$look/$part.out" ;;
        *) [ -s "$look/$part.out" ] ;;
    esac
}

printable() { # FILES...; the first line in them, fit to stand in JSON
    sed 's/[^ -~]//g; s/["\\]//g; /^ *$/d; s/\(.\{200\}\).*/\1/' "$@" 2>/dev/null | head -n 1
}

unknown() { # CHECKS...
    for check in "$@"; do
        told_of="\"name\": \"$check\", \"status\": \"unknown\", \"message\": \"${why:-its tool gave no answer}\""
        checks="${checks:+$checks, }{$told_of}"
    done
}

collect() {
    rounds=$((rounds + 1))
    rm -rf "$scratch/parts" "$look" 2>/dev/null || :
    look=$scratch/look$rounds # its own folder: a tool that was left behind may still write into that of its round
    mkdir "$scratch/parts" "$look"
    started='' checks='' unreadable=''
    start_tool nvidia_smi_xml nvidia-smi -q -x
    start_tool dcgm_health dcgmi health -c -j
    start_tool ibv_devinfo ibv_devinfo -v
    start_tool lspci lspci -Dnnvvv
    start_log
    start_sysfs
    wait_for_tools
    check_room # what a tool printed may be cut
    take nvidia_smi_xml gpu.ecc gpu.row_remap || case " $started " in
        *' nvidia_smi_xml '*) unreadable="nvidia-smi: $why" ;;
        *)
            if has_gpus; then
                unreadable='there are NVIDIA GPUs on the PCI bus, and no nvidia-smi' why=''
                unknown gpu.ecc gpu.row_remap
            fi
            ;;
    esac
    take dcgm_health dcgm.health || :
    if ! take efa_sysfs efa.link; then
        case " $started " in *' efa_sysfs '*) unreadable="$sys cannot be read and packed by tar: $why" ;; esac
    fi
    take ibv_devinfo || :
    take lspci || :
    if take kernel_log gpu.xid; then cut_log; fi
    if [ -z "$(ls "$scratch/parts")$checks" ]; then unreadable='no tool here said anything about the hardware'; fi
}

# Display controllers only; an NVSwitch has another class: https://pci-ids.ucw.cz/read/PD/03
has_gpus() {
    for card in "$root"/sys/bus/pci/devices/*; do
        case $(first_line "$card/vendor"):$(first_line "$card/class") in
            0x10de:0x0300* | 0x10de:0x0302*) return 0 ;;
        esac
    done
    return 1
}

# Of a log that is too long for a report the newest lines are what tells how the devices are now.
cut_log() {
    log=$scratch/parts/kernel_log
    [ "$(wc -c 2>/dev/null <"$log" || echo 0)" -gt "$LOG_MOST" ] || return 0
    tail -c "$LOG_MOST" "$log" | sed 1d >"$look/log"
    mv "$look/log" "$log"
}

# The journal holds the whole boot, the kernel's own ring only the newest part of it.
start_log() {
    if command -v journalctl >/dev/null && [ -z "$root" ]; then
        # shellcheck disable=SC2016 # the inner shell expands it
        start_tool kernel_log sh -c 'journalctl -q -k -b -o short-iso-precise --no-pager --lines=20000 >"$0" || :
            if [ -s "$0" ]; then cat "$0"; else exec dmesg; fi' "$look/journal"
    else
        start_tool kernel_log dmesg
    fi
}

# In the background, as the tools are: reading a counter asks the adapter, and one that is ill may not answer.
start_sysfs() {
    sys=$root/sys tree=$look/tree
    if [ ! -d "$sys/class/infiniband" ] && [ ! -d "$sys/bus/pci/devices" ]; then
        unreadable="$sys shows neither a PCI bus nor RDMA devices"
        why='' && unknown efa.link && return 0
    fi
    started="$started efa_sysfs"
    (
        { copy_sysfs && tar -cf "$look/efa_sysfs.out" -C "$tree" .; } || rm -f "$look/efa_sysfs.out"
        : >"$look/efa_sysfs.done"
    ) >/dev/null 2>"$look/efa_sysfs.err" </dev/null &
    printf '%s\n' $! >"$look/efa_sysfs.pid"
}

# sysfs announces 4,096 bytes for each attribute and gives fewer, over which some tars stumble: so it is copied first.
copy_sysfs() {
    mkdir -p "$tree"
    for card in "$sys"/class/infiniband/*; do
        if [ -e "$card" ]; then copy_rdma "$card" "$tree/class/infiniband/${card##*/}"; fi
    done
    for card in "$sys"/class/net/*; do
        [ -d "$card" ] || continue
        copy_to "$tree/class/net/${card##*/}" "$card/address" "$card/operstate" "$card/carrier"
        if [ -d "$card/device" ]; then mkdir -p "$tree/class/net/${card##*/}/device"; fi
    done
    if [ -d "$sys/bus/pci/devices" ]; then copy_bus; fi
}

copy_rdma() { # FROM TO
    if [ ! -e "$1/device" ] && [ -L "$1" ]; then # a device of software alone, known by where its link leads
        mkdir -p "${2%/*}"
        cp -P "$1" "$2" 2>/dev/null || :
        return 0
    fi
    copy_to "$2" "$1/fw_ver" "$1/node_guid" "$1/hca_type"
    copy_to "$2/device" "$1/device/vendor" "$1/device/device" "$1/device/uevent"
    copy_to "$2/hw_counters" "$1"/hw_counters/*
    for port in "$1"/ports/*; do
        [ -d "$port" ] || continue
        copy_to "$2/ports/${port##*/}" "$port/state"
        copy_to "$2/ports/${port##*/}/gids" "$port/gids/0"
        copy_to "$2/ports/${port##*/}/hw_counters" "$port"/hw_counters/*
    done
}

# EFAs whose driver is not loaded are on the bus only: https://pci-ids.ucw.cz/read/PC/1d0f
copy_bus() {
    mkdir -p "$tree/bus/pci/devices"
    for card in "$sys"/bus/pci/devices/*; do
        case $(first_line "$card/vendor"):$(first_line "$card/device") in
            0x1d0f:0xefa?) copy_to "$tree/bus/pci/devices/${card##*/}" "$card/vendor" "$card/device" ;;
        esac
    done
}

copy_to() { # FOLDER FILES...; what cannot be read is left out
    to=$1
    shift
    mkdir -p "$to"
    cp "$@" "$to" 2>/dev/null || :
}

# --- one round: look, report, ask -----------------------------------------------------------------------------------

# Sets code and line. What the server knew before never stands in for what could not be read or told now.
go_round() {
    started_at=$(stamp)
    collect
    finished_at=$(stamp)
    # Nothing at all is no report: it would only make the node look alive.
    if [ -z "$(ls "$scratch/parts")$checks" ]; then code=4 line=$unreadable && return 0; fi
    report
    [ -z "$code" ] || return 0
    if [ -n "$unreadable" ]; then code=4 line=$unreadable && return 0; fi
    ask "nodes/$node/admission" -H 'Accept: text/plain'
    case $status in
        200) read_decision ;;
        401 | 403) refused ;;
        *) code=20 line=$(trouble) ;;
    esac
}

stamp() { date -u +%Y-%m-%dT%H:%M:%SZ; }

report() { # sets code when the report was not taken
    code='' line=''
    report_id=$boot_id-$$-$(date +%s)-$rounds
    set -- --form-string report_id="$report_id" --form-string boot_id="$boot_id" \
        --form-string provider_id="$provider_id" --form-string profile="$profile" \
        --form-string started_at="$started_at" --form-string finished_at="$finished_at"
    if [ -n "$zone" ]; then set -- "$@" --form-string zone="$zone"; fi
    if [ -n "$checks" ]; then set -- "$@" --form-string checks="[$checks]"; fi
    # dmesg counts from the boot. The dates of a journal are its own, and a clock that was set since moved the boot.
    case $(first_line "$scratch/parts/kernel_log") in
        '['*) if [ -n "$booted_at" ]; then set -- "$@" --form-string booted_at="$booted_at"; fi ;;
    esac
    for file in "$scratch"/parts/*; do
        if [ -f "$file" ]; then set -- "$@" -F "${file##*/}=@parts/${file##*/}"; fi
    done
    ask "nodes/$node/reports" --form-string sent_at="$(stamp)" "$@"
    case $status in
        200) # many things on a way answer so: taken is what a server names
            if grep -qF "\"$report_id\"" "$scratch/answer"; then say_why_not_counted; else code=20 line=$(strange); fi
            ;;
        401 | 403) refused ;;
        409) if is_problem instance_superseded; then end 13 "$(detail)"; fi && code=20 line=$(trouble) ;;
        422)
            if is_problem part_unreadable; then code=4 line=$(detail); elif is_ours; then
                end 2 "refused: $(detail)"
            else code=20 line=$(trouble); fi
            ;;
        413) code=4 line="what the tools print is too much for one report: $(detail)" ;;
        *) code=20 line=$(trouble) ;;
    esac
}

say_why_not_counted() {
    grep -q '"counted": *false' "$scratch/answer" 2>/dev/null || return 0
    because=$(field because)
    why=$(field detail)
    said="this run did not count: ${because:-it is not said why}${why:+ ($why)}"
    if [ "$said" != "$said_before" ]; then say "$node: $said"; fi
    said_before=$said
}

field() { # NAME; a text in the answer's `pass`
    sed -n "s/.*\"pass\": *{[^}]*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$scratch/answer" 2>/dev/null | head -n 1
}

read_decision() {
    disposition='' code=20 codes='' retry_at='' more=''
    read -r disposition code codes retry_at more <"$scratch/answer" || :
    line="$disposition $code $codes $retry_at"
    case $disposition:$code:$more in
        admit:0: | hold:1[0123]: | drain:1[0123]:) [ -n "$retry_at" ] && return 0 ;;
    esac
    code=20 line=$(strange)
}

is_over() { [ "$(clock)" -ge "$deadline" ]; }

rest_for() { # SECONDS, but not beyond the deadline
    left=$((deadline - $(clock)))
    pause=$1
    if [ "$left" -lt "$pause" ]; then pause=$left; fi
    [ "$pause" -gt 0 ] || return 0
    sleep "$pause" &
    wait_for $! || :
}

main() {
    read_arguments "$@"
    deadline=$(($(clock) + seconds))
    rounds=0 look='' told='' said_before='' is_anew='' why='' ca_folder=''
    make_scratch
    find_token
    while :; do
        go_round
        if [ -n "$is_anew" ]; then is_anew='' && continue; fi
        if [ "$code" = 0 ] || is_over; then break; fi
        if [ "$line" != "$told" ]; then say "$node: waiting: $line" && told=$line; fi
        # Times are told in whole seconds: one more, or a round could seem to begin too soon after the one before.
        if [ "$code" = 20 ]; then rest_for "$POLL"; else rest_for $((gap + 1)); fi
    done
    printf '%s: %s\n' "$node" "$line" || :
    exit "$code"
}

main "$@"
# shellcheck disable=SC2317 # if main ever comes back, that is no yes
exit 20
}
