const client = async (key) => new (await import("pusher")).default({ appId: "1", key: "app-key", secret: key.secret, cluster: "eu" });

export default {
  provider: "pusher",
  sdk: "pusher",
  header: { "X-Pusher-Key": "app-key" },
  async verify(request, key) {
    return (await client(key)).webhook({ headers: request.headers, rawBody: request.body }).isValid();
  },
  async sign(request, key) {
    const { default: Token } = await import("pusher/lib/token.js");
    return { headers: { "x-pusher-signature": new Token("app-key", key.secret).sign(request.body) } };
  },
};
