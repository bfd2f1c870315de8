import { rawPublic } from "../lib/keys.mjs";

export default {
  provider: "telnyx",
  sdk: "telnyx",
  async verify(request, key) {
    const { default: Telnyx } = await import("telnyx");
    const client = new Telnyx({ apiKey: "key", publicKey: rawPublic(key).toString("base64") });
    await client.webhooks.unwrap(request.body, { headers: request.headers });
    return true;
  },
};
