const sdk = async () => (await import("stripe")).default;

export default {
  provider: "stripe",
  sdk: "stripe",
  async verify(request, key) {
    const Stripe = await sdk();
    if (request.body.includes('"object":"v2.core.event"')) {
      new Stripe("sk_test_1").parseEventNotification(request.body, request.headers["stripe-signature"], key.secret);
      return true;
    }
    Stripe.webhooks.constructEvent(request.body, request.headers["stripe-signature"], key.secret);
    return true;
  },
  async sign(request, key) {
    const Stripe = await sdk();
    const timestamp = Math.floor(request.now / 1000);
    const header = Stripe.webhooks.generateTestHeaderString({ payload: request.body, secret: key.secret, timestamp });
    return { headers: { "stripe-signature": header } };
  },
};
