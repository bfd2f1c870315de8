async function webhooks() {
  const { default: ModernTreasury } = await import("modern-treasury");
  return new ModernTreasury({ organizationID: "organization", apiKey: "key" }).webhooks;
}

export default {
  provider: "modern-treasury",
  sdk: "modern-treasury",
  async verify(request, key) {
    return (await webhooks()).validateSignature(request.body, request.headers, { key: key.secret });
  },
  async sign(request, key) {
    return { headers: { "x-signature": (await webhooks()).getSignature(request.body, { key: key.secret }) } };
  },
};
