export default {
  provider: "whatsapp",
  sdk: "whatsapp-api-js",
  ascii: "it checks the body with other characters as \\u escapes; Meta's bodies hold only such escapes",
  async verify(request, key) {
    const { WhatsAppAPI } = await import("whatsapp-api-js");
    const api = new WhatsAppAPI({ token: "token", appSecret: key.secret, v: "v24.0" });
    return await api.verifyRequestSignature(request.body, request.headers["x-hub-signature-256"]);
  },
};
