import { rawPublic } from "../lib/keys.mjs";

export default {
  provider: "discord",
  sdk: "discord-interactions",
  unchecked: { age: "the package has no clock" },
  async verify(request, key) {
    const { verifyKey } = (await import("discord-interactions")).default;
    const { "x-signature-ed25519": signature, "x-signature-timestamp": timestamp } = request.headers;
    return await verifyKey(request.body, signature, timestamp, rawPublic(key).toString("hex"));
  },
};
