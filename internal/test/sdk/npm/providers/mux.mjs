const webhooks = async () => new (await import("@mux/mux-node")).default({ tokenId: "id", tokenSecret: "secret" }).webhooks;

export default {
  provider: "mux",
  sdk: "@mux/mux-node",
  async verify(request, key) {
    await (await webhooks()).verifySignature(request.body, request.headers, key.secret);
    return true;
  },
  async sign(request, key) {
    const timestamp = Math.floor(request.now / 1000);
    const signature = await (await webhooks()).computeSignature(`${timestamp}.${request.body}`, key.secret);
    return { headers: { "mux-signature": `t=${timestamp},v1=${signature}` } };
  },
};
