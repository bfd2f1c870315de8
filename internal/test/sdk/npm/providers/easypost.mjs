export default {
  provider: "easypost",
  sdk: "@easypost/api",
  async verify(request, key) {
    const { default: EasyPost } = await import("@easypost/api");
    new EasyPost("key").Utils.validateWebhook(Buffer.from(request.body), request.headers, key.secret);
    return true;
  },
};
