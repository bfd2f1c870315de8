import { createRequire } from "node:module";
const require = createRequire(import.meta.url);

// client returns a client whose cache of keys, which is a service of Adobe, is empty.
async function client() {
  require("@adobe/aio-lib-state").init = async () => ({ get: async () => undefined, put: async () => {} });
  return require("@adobe/aio-lib-events").init("organization", "client", "token");
}

export default {
  provider: "adobe-io-events",
  sdk: "@adobe/aio-lib-events",
  params: { client_id: "client" },
  body: '{"event_id":"evt_1","event":{"@type":"test"},"recipient_client_id":"client"}', // it takes one event, not a batch
  documents: ({ headers }, key) =>
    Object.fromEntries(
      [headers["x-adobe-public-key1-path"], headers["x-adobe-public-key2-path"]]
        .filter((path) => path !== undefined)
        .map((path) => [`https://static.adobeioevents.com${path}`, key.public]),
    ),
  async verify(request, key) {
    const { headers } = request;
    const verdict = await (await client()).verifyDigitalSignatureForEvent(request.body, "client", {
      digiSignature1: headers["x-adobe-digital-signature-1"],
      digiSignature2: headers["x-adobe-digital-signature-2"],
      publicKeyPath1: headers["x-adobe-public-key1-path"],
      publicKeyPath2: headers["x-adobe-public-key2-path"],
    });
    return verdict === true; // else it is undefined, or an answer with the code 401
  },
};
