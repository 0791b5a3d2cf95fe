# SPDX-License-Identifier: Apache-2.0
"""What do our words mean, and which room is what in? A new word enters here before it enters the code.

The words

    device, unit   one GPU or one EFA adapter: what can be swapped and can be bad. Never a slot, never an index.
    board          what carries one or more units and bears the printed serial; what is swapped and returned.
    identifier     a typed text that points at a unit or a board, with its scope (hardware, interface, place).
    naming         said of an identifier that points at hardware by itself: serial, uuid, unique_id, vpd_serial, ueid.
    slot           a PCI address as `dddd:bb:dd.f`: a place on a node, never an identity.
    node           a name under which machines appear.
    instance       one life of a node (`provider_id`); owns placements, passes, conditions.
    boot           one boot of an instance (`boot_id`).
    placement      a unit in a slot of an instance, from when to when.
    tenant         a unit that was in a slot; the same one in several instances of a name is one tenant.
    grid           the slots of one kind on a node, a cell for each, those included that stand empty.
    contested      said of a placement that was closed because another node listed the unit, while its own node may not
                   know it yet: listing it again is a conflict.
    entry          one line of a list, as it was printed.
    sighting       an entry in the forms that can be matched.
    fingerprint    an entry in the forms that a ruling speaks of; empty words mean any.
    list           all entries of a report for the kinds it covers.
    report         one message of a node: entries, readings, check results.
    run            one round of checks (`run_id`); several reports may carry parts of it.
    part           what one report brings to a run.
    pass           a complete, clean run that counted.
    stamp          the timestamp text inside a tool's output: the same text again is the same look.
    receipt        what a node's row remembers of a report, to answer the same report alike.
    failure        something observed on a device or node: code, cause, severity, when, evidence.
    blocking       said of a failure whose effect in the policy is `hold` or stronger.
    unattached     said of a failure seen in a place where no device is known.
    sight          one time, or one burst, that a failure was seen; a failure of one boot counts its sights.
    muted          said of a failure that has no effect: its time falls into maintenance, or it was injected.
    spell          the sights of a device between two of its releases.
    check          one question a run asks; its results are findings when they say more than that all is well.
    word           what the newest look of a check says of a device or the node: well, bad, or unknown.
    condition      a check of a device or a node that is not well: `problem` at once, `failure` after its tolerance,
                   `unknown` where nobody can look. It bears the name of the check.
    tolerance      how long a condition may last before it is a failure; only time in which it was seen bad counts.
    flapping       said of a check that changes too often between well and bad; a condition of its own.
    ladder         the actions that may mend a failure, from killing a job to returning a board; what returns is met
                   with the next step.
    proven         said of hardware that failed a test the policy trusts: it may be given away at once.
    order          one action to carry out on a device or a node; whoever claims it has a lease on it.
    claim          the word of somebody to carry an order out; the newest one's token goes with every later word of it.
    disturbed      said of a node that a repair keeps out of work, or may at any moment.
    settled        said of an order that is over and whose node counts as disturbed no longer.
    budget         how many nodes may be disturbed at once: of the fleet, a profile, a zone, and begun within an hour.
    brake          what keeps orders from beginning besides the budget: a person's stop, a suspicion, safe mode.
    suspicion      a check made too many nodes bad at once to be believed; its repairs wait for a person's word.
    heat           what makes a GPU an outlier: hotter than its neighbours of the same model under like load.
    quarantine, hold   our decision to keep a unit, board, machine or identifier out: who, why, until what.
    queue          what is held or withheld now, as people work through it: the oldest first.
    piece          one kind of evidence that the case of a hold may have: a failure record, a kernel log, a diagnostic,
                   a second place, a ticket.
    review         a person's second look at a hold that goes on, with a new date or ticket.
    bind           a hold binds what it meets: a unit, a board, an instance, a chassis, a name, an identifier
                   unseen; and the node's name that was asked for, which meets nothing, so that it is found.
    target         what a hold is laid on: a unit, a board, an identifier, a node.
    owner          whose hold it is: a person (`operator:alice`) or a rule (`rule:xid_79`).
    rule           so many sights of such faults within a time open a hold; a code with a strong effect is one alone.
    breaker        what limits how many nodes rules hold within a window; never people.
    withheld       said of a hold that the breaker did not let through: it blocks, under another name, until settled.
    conflict       what was printed contradicts the records; it blocks until it is gone or a person rules.
    ruling         what a person decided about a conflict: an entry printed like this is that unit.
    waiver         a person accepts fewer devices for a while.
    join token     what new nodes trade, each once, for a token of their own; bounded by names, profile, count and time.
    trade          one such exchange, which binds the new token to an instance.
    sign of life   what the service writes every few seconds, so that its absence shows.
    outage         a gap in the service's own signs of life; left out of all ages.
    checkpoint     a signed head of the history, kept outside the database.
    rotation       one signing key handed over to another; each signs both.
    sink           where checkpoints go: a file, an address.
    subtree        a kept part of the tree of hashes over the history, whose root a checkpoint signs.
    alarm          the history lacks what a checkpoint, or a database that was replaced, says of it.
    safe mode      an alarm stands: nobody is admitted until an administrator takes note of what is lost.
    backup         one moment of the records in one file; its manifest says beside it what it holds.
    floor          the right of one request in a process to compute; given back for every wait, and guards nothing.
    relay          one thread that writes a row for each of those that wait for their turn to write one.
    lease          the right of one process to do what only one may do; it runs out by the database's clock.
    job            work on several nodes at once that stops with the first of them; it says itself how it fares.
    job failure    one failure of one job at one moment, however many ranks and times tell of it.
    verdict        who is to blame for a job failure, how sure that is, and what to do with the job.
    attribution    whose matter it is: the platform's, the application's, or undecided; the cause says it more exactly.
    witness        who only waits or finds another gone; blames nobody and is blamed for nothing.
    suspect        the node at which most witnesses point; nothing is known of it, and it is left out of a retry.
    telling        one message about a job failure; another one tells more of the same failure.
    step           what a job counts its progress in: steps or samples.
    durable        said of progress that no interruption can take away: a checkpoint holds it, or a restart restored it.
    goodput        the part of a job's allocated time that was progress which survived; badput is the rest.
    ETTR           the same with the time in the queue counted as lost: effective training time ratio.
    interruption   a job was stopped against its will and means to go on; of many ranks that tell of it, one.
    fold           what the messages of a job amount to so far, so that the next one need not read all of them.
    pending        said of work that no checkpoint holds yet.
    tally          sums over stretches of five minutes and of hours, from which windows are read.
    survey         the counting of where all nodes stand, once a minute; it stands for the time since the last.
    count          of a large fleet: what it has and what fails most, counted every few minutes and kept with its time.
    repeat offender   a held device that turned up under another node than the one it failed on.
    session        one sign-in of one browser; it names a token, and ends with it.
    objective      what the policy promises to those who run jobs, in a window of time (SLO).
    burn rate      how many times as fast as it may the room for failure of an objective is used up.
    decision       admitted or not, the disposition (`admit`, `hold`, `drain`), and all the reasons.
    note           a person's remark on a device; an event, and kept beside so that it is found.
    stay           the time that a device was in one slot of one node.
    timeline       a device's whole life as a picture: stays by node, failures as marks, passes as ticks, holds as bars.
    folded         said of what a picture or page counts and does not show one by one, because it is older or too much.
    swap test      what the places tell in which a device failed: whether the fault went with it or stayed in the slot.
    bundle         all that is known of one device in one file, with proofs, for whoever takes the device back.
    event          one entry of the append-only history: `noun.past_participle`.
    subscription   an address that is told of events as they happen: which ones, in what format, signed with what.
    delivery       one event on its way to one subscription, from the first try that failed on.
    dead letter    a delivery that was tried for days in vain and given up; a person may replay it.
    position       how far in the history a subscription has got: all before is told, on its way, or a dead letter.
    courier        what brings events to subscriptions, in the one process that has the lease.
    subject        what an event is about; each subject numbers its own events.
    actor          who did it: operator, node, rule, system.
    round          what a node's agent does once in a period: look, tell, act.
    look           what all sources of a machine say at one time; a source is one tool or one place in its files.
    spool          the messages of a node that wait on its disk for a server.
    standing       what holds for a node by its agent's knowledge: the last decision, or that there is none.
    managed        said of a Kubernetes node with the label `pratique.dev/managed=true`; others are left alone.
    closed         said of a managed node whose taint `pratique.dev/unadmitted` keeps new pods away.
    opening        a change of a Node after which nothing would keep pods away from it that we keep closed.
    silent         said of a node of which nothing is said but that nobody hears of it; many at once are a mass silence,
                   which is laid to us or to the network, and closes nobody.
    keep           a reason to leave the taints of a node as they are, whatever they are.

The rooms, imports only downwards

    main           the `pratique` command; loads the two halves below
    cli            commands that speak HTTP           admin     commands on the server's host
    agent          the loop of a node                 controller  the loop of a Kubernetes cluster
    client         the HTTP client                    services  use cases: one function, one transaction
    collectors     tool output into facts             store     SQL; peewee never leaves it
    config         settings
    domain         the rules: facts and `now` in, a value out

`api` stands above all of them and knows HTTP; `migrations` stands apart and knows only SQL.
"""
