const sdk = () => import("@alexasomba/paystack-node");

export default {
  provider: "paystack",
  sdk: "@alexasomba/paystack-node",
  async verify(request, key) {
    const { verifyPaystackWebhookSignature } = await sdk();
    return verifyPaystackWebhookSignature({
      rawBody: request.body,
      signature: request.headers["x-paystack-signature"],
      secret: key.secret,
    });
  },
  async sign(request, key) {
    const { computePaystackWebhookSignature } = await sdk();
    return { headers: { "x-paystack-signature": computePaystackWebhookSignature(request.body, key.secret) } };
  },
};
