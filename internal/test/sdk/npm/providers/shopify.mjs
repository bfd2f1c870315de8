import { createHmac } from "node:crypto";

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

const subject = {
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

// events sends the headers without X-, which the SDK verifies but does not write.
const events = {
  ...subject,
  variant: "events",
  signed: ["shopify-hmac-sha256"],
  async sign(request, key) {
    const headers = { "shopify-event-id": request.id };
    for (const [name, value] of Object.entries(request.headers)) {
      if (!name.startsWith("x-shopify-")) continue;
      headers[name] = null;
      headers[name.slice("x-".length)] = value;
    }
    headers["shopify-hmac-sha256"] = createHmac("sha256", key.secret).update(request.body).digest("base64");
    return { headers };
  },
};

export default [subject, events];
