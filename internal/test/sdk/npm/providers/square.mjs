export default {
  provider: "square",
  sdk: "square",
  async verify(request, key) {
    const { WebhooksHelper } = await import("square");
    return WebhooksHelper.verifySignature({
      requestBody: request.body,
      signatureHeader: request.headers["x-square-hmacsha256-signature"],
      signatureKey: key.secret,
      notificationUrl: request.url + (request.query ? `?${request.query}` : ""),
    });
  },
};
