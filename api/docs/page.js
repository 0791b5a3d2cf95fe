// SPDX-License-Identifier: Apache-2.0
// How is the document shown? By Swagger UI; the token that is typed in stays in this page.
window.addEventListener("load", () => {
  SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#document",
    deepLinking: true,
    docExpansion: "list",
    tagsSorter: "alpha",
    defaultModelsExpandDepth: 0,
    persistAuthorization: false,
    validatorUrl: null,
  });
});
