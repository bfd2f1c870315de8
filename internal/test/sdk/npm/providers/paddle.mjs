export default {
  provider: "paddle",
  sdk: "@paddle/paddle-node-sdk",
  async verify(request, key) {
    const { Paddle } = await import("@paddle/paddle-node-sdk");
    const { webhooks } = new Paddle("key"); // it sets the crypto that a bare Webhooks lacks
    return await webhooks.isSignatureValid(request.body, key.secret, request.headers["paddle-signature"]);
  },
  async read(request, key) {
    const { GenericEvent, Paddle } = await import("@paddle/paddle-node-sdk");
    const { webhooks } = new Paddle("key");
    const event = await webhooks.unmarshal(request.body, key.secret, request.headers["paddle-signature"]);
    if (event instanceof GenericEvent) throw new Error(`the SDK has no class for ${event.eventType}`);
  },
};
