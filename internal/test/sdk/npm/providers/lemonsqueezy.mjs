export default {
  provider: "lemonsqueezy",
  sdk: "@hookflo/tern",
  async verify({ url, method, headers, body }, key) {
    const { WebhookVerificationService } = (await import("@hookflo/tern")).default;
    const request = new Request(url, { method, headers, body });
    const { isValid, error } = await WebhookVerificationService.verify(request, { platform: "lemonsqueezy", secret: key.secret });
    if (!isValid) throw new Error(error);
    return true;
  },
};
