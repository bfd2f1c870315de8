// The verifier needs an app with settings.
let api;
async function app(secret) {
  await import("@shopify/shopify-api/adapters/node");
  api ??= await import("@shopify/shopify-api");
  return api.shopifyApi({
    apiKey: "key",
    apiSecretKey: secret,
    apiVersion: Object.values(api.ApiVersion)[0],
    hostName: "app.example.com",
    isEmbeddedApp: false,
    logger: { level: 0 },
  });
}

export default {
  provider: "shopify",
  sdk: "@shopify/shopify-api",
  async verify(request, key) {
    const shopify = await app(key.secret);
    const rawRequest = { method: request.method, url: new URL(request.url).pathname, headers: request.headers };
    const result = await shopify.webhooks.validate({ rawBody: request.body, rawRequest, rawResponse: {} });
    if (!result.valid) throw new Error(`${result.reason} ${result.missingHeaders ?? ""}`);
    return true;
  },
};
