export default {
  provider: "linear",
  sdk: "@linear/sdk",
  async verify(request, key) {
    const { LinearWebhookClient } = await import("@linear/sdk/webhooks");
    const { webhookTimestamp } = JSON.parse(request.body);
    const signature = request.headers["linear-signature"];
    return new LinearWebhookClient(key.secret).verify(Buffer.from(request.body), signature, webhookTimestamp);
  },
};
