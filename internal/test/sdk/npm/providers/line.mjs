export default {
  provider: "line",
  sdk: "@line/bot-sdk",
  async verify(request, key) {
    const { validateSignature } = await import("@line/bot-sdk");
    return validateSignature(request.body, key.secret, request.headers["x-line-signature"]);
  },
};
