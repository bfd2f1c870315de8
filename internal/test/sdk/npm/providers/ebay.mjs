import { createRequire } from "node:module";
const require = createRequire(import.meta.url);

// fresh returns a module of the SDK without the keys that it has kept.
function fresh() {
  for (const file of Object.keys(require.cache)) {
    if (file.includes("/event-notification-nodejs-sdk/lib/")) delete require.cache[file];
  }
  return require("event-notification-nodejs-sdk/lib/validator.js");
}

const idOf = (request) => {
  try {
    return JSON.parse(Buffer.from(request.headers["x-ebay-signature"], "base64")).kid;
  } catch {}
};
const config = { clientId: "client", clientSecret: "secret", environment: "PRODUCTION" };

export default {
  provider: "ebay",
  scheme: "ecdsa",
  sdk: "event-notification-nodejs-sdk",
  unchecked: { "value repeated in the body": "it writes the JSON again before it checks it" },
  ascii: "the SDK writes the JSON again",
  documents: (request, key) => ({
    "https://api.ebay.com/identity/v1/oauth2/token": '{"access_token":"token"}',
    [`https://api.ebay.com/commerce/notification/v1/public_key/${idOf(request)}`]: JSON.stringify({
      key: key?.public.replaceAll("\n", ""), // eBay writes it in one line
      algorithm: "ECDSA",
      digest: "SHA1",
    }),
  }),
  async verify(request) {
    return await fresh().validateSignature(JSON.parse(request.body), request.headers["x-ebay-signature"], config);
  },
  vectors: () => {
    const { VALID } = require("event-notification-nodejs-sdk/test/test.json");
    const pem = VALID.response.key.replace("KEY-----", "KEY-----\n").replace("-----END", "\n-----END");
    return [
      {
        name: "sdk-test",
        key: { public: pem },
        request: {
          headers: { "x-ebay-signature": VALID.signature },
          body: JSON.stringify(VALID.message),
          now: Date.UTC(2021, 2, 19, 20, 44),
        },
      },
    ];
  },
};
