// @hookflo/tern verifies the webhooks of providers whose own SDKs do not.
const subject = (provider, more) => ({
  provider,
  sdk: "@hookflo/tern",
  async verify(request, key) {
    const { WebhookVerificationService } = await import("@hookflo/tern");
    const { method, headers, body } = request;
    const received = new Request(request.url, { method, headers, body });
    const result = await WebhookVerificationService.verify(received, { platform: provider, secret: key.secret });
    if (!result.isValid) throw new Error(result.error);
    return true;
  },
  ...more,
});

export default [subject("sentry"), subject("woocommerce")];
