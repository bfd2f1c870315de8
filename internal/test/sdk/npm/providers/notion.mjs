const sdk = () => import("@notionhq/client");

export default {
  provider: "notion",
  sdk: "@notionhq/client",
  async verify(request, key) {
    const { verifyWebhookSignature } = await sdk();
    const signature = request.headers["x-notion-signature"];
    return verifyWebhookSignature({ body: request.body, signature, verificationToken: key.secret });
  },
  async sign(request, key) {
    const { signWebhookPayload } = await sdk();
    const signature = await signWebhookPayload({ body: request.body, verificationToken: key.secret });
    return { headers: { "x-notion-signature": signature } };
  },
};
