export default {
  provider: "onfido",
  sdk: "@onfido/api",
  async verify(request, key) {
    const { WebhookEventVerifier } = (await import("@onfido/api/dist/webhook-event-verifier.js")).default;
    new WebhookEventVerifier(key.secret).readPayload(Buffer.from(request.body), request.headers["x-sha2-signature"]);
    return true;
  },
  // From the tests of Onfido's SDK.
  vectors: [
    {
      name: "sdk-classic",
      key: { secret: "_ABC123abc123ABC123abc123ABC123_" },
      request: {
        headers: { "x-sha2-signature": "a0082d7481f9f0a2907583dbe1f344d6d4c0d9989df2fd804f98479f60cd760e" },
        body:
          '{"payload":{"resource_type":"check","action":"check.completed","object":{"id":"check-123","status":"complete",' +
          '"completed_at_iso8601":"2020-01-01T00:00:00Z","href":"https://api.onfido.com/v3/checks/check-123"}}}',
        now: 1700000000000,
      },
    },
  ],
};
