export default {
  provider: "razorpay",
  sdk: "razorpay",
  async verify(request, key) {
    const { default: Razorpay } = await import("razorpay");
    return Razorpay.validateWebhookSignature(request.body, request.headers["x-razorpay-signature"], key.secret);
  },
};
