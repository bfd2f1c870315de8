const webhook = async () => (await import("coinbase-commerce-node")).default.Webhook;

export default {
  provider: "coinbase-commerce",
  sdk: "coinbase-commerce-node",
  async verify(request, key) {
    (await webhook()).verifyEventBody(request.body, request.headers["x-cc-webhook-signature"], key.secret);
    return true;
  },
  async sign(request, key) {
    return { headers: { "x-cc-webhook-signature": (await webhook()).computeSignature(request.body, key.secret) } };
  },
};
