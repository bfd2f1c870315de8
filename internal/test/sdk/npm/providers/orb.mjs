async function webhooks() {
  const { default: Orb } = await import("orb-billing");
  return new Orb({ apiKey: "key" }).webhooks;
}

export default {
  provider: "orb",
  sdk: "orb-billing",
  async verify(request, key) {
    (await webhooks()).verifySignature(request.body, request.headers, key.secret);
    return true;
  },
  async sign(request, key) {
    const timestamp = new Date(request.now).toISOString().replace("Z", ""); // Orb writes no zone
    const signature = (await webhooks()).signPayload(request.body, { timestamp, secret: key.secret });
    return { headers: { "x-orb-timestamp": timestamp, "x-orb-signature": signature } };
  },
  // From the tests of the SDK.
  vectors: [
    {
      name: "sdk-test",
      key: { secret: "c-UGKYdnhHh436B_sMouYAPUvXyWpzOdunZBV5dFSD8" },
      request: {
        headers: {
          "x-orb-timestamp": "2024-03-27T15:42:29.551",
          "x-orb-signature": "v1=9d25de966891ab0bc18754faf8d83d0980b44ae330fcc130b41a6cf3daf1f391",
        },
        body:
          '{"id": "o4mmewpfNNTnjfZc", "created_at": "2024-03-27T15:42:29+00:00", "type": "resource_event.test", ' +
          '"properties": {"message": "A test webhook from Orb. Happy testing!"}}',
        now: Date.UTC(2024, 2, 27, 15, 42, 30),
      },
    },
  ],
};
