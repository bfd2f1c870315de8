export default {
  provider: "wix",
  sdk: "@wix/sdk",
  covered: ["eyJ"], // and the middle, not the last letter: jose ignores the bits of it that belong to no byte
  async verify(request, key) {
    const { AppStrategy, createClient } = await import("@wix/sdk");
    const auth = AppStrategy({ appId: "app", appSecret: "secret", publicKey: key.public });
    await createClient({ auth }).webhooks.process(request.body);
    return true;
  },
};
