const appKey = "0123456789abcdef0123"; // that of send
const client = async (key) => new (await import("pusher")).default({ appId: "1", key: appKey, secret: key.secret, cluster: "eu" });

export default {
  provider: "pusher",
  sdk: "pusher",
  async verify(request, key) {
    return (await client(key)).webhook({ headers: request.headers, rawBody: request.body }).isValid();
  },
  async sign(request, key) {
    const { default: Token } = await import("pusher/lib/token.js");
    return { headers: { "x-pusher-signature": new Token(appKey, key.secret).sign(request.body) } };
  },
};
