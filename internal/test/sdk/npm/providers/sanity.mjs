export default {
  provider: "sanity",
  sdk: "@sanity/webhook",
  unchecked: { age: "the package has no clock", several: "the package reads one signature" },
  async verify(request, key) {
    const { isValidSignature } = await import("@sanity/webhook");
    return await isValidSignature(request.body, request.headers["sanity-webhook-signature"], key.secret);
  },
  async sign(request, key) {
    const { encodeSignatureHeader } = await import("@sanity/webhook");
    return { headers: { "sanity-webhook-signature": await encodeSignatureHeader(request.body, request.now, key.secret) } };
  },
};
