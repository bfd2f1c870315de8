export default {
  provider: "mercado-pago",
  sdk: "mercadopago",
  signed: ["x-request-id"],
  covered: [],
  async verify(request, key) {
    const { WebhookSignatureValidator } = await import("mercadopago");
    WebhookSignatureValidator.validate({
      xSignature: request.headers["x-signature"],
      xRequestId: request.headers["x-request-id"],
      dataId: new URLSearchParams(request.query).get("data.id"),
      secret: key.secret,
      toleranceSeconds: 300,
    });
    return true;
  },
};
