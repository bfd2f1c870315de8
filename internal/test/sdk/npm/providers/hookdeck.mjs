export default {
  provider: "hookdeck",
  sdk: "@hookdeck/sdk",
  async verify(request, key) {
    const { verifyWebhookSignature } = (await import("@hookdeck/sdk/webhooks/helpers.js")).default;
    const { headers, body } = request;
    return (await verifyWebhookSignature({ headers, rawBody: body, signingSecret: key.secret })).isValidSignature;
  },
};
