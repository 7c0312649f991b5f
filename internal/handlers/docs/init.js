// Every address is relative, so that the page works under any prefix.
SwaggerUIBundle({
  url: "openapi.yaml",
  dom_id: "#contract",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
