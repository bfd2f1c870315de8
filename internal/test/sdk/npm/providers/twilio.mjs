const sdk = async () => (await import("twilio")).default;
const address = (request) => request.url + (request.query ? `?${request.query}` : "");

export default [
  {
    provider: "twilio",
    scheme: "form",
    sdk: "twilio",
    query: "a=1&b=%20x",
    async verify(request, key) {
      const twilio = await sdk();
      const fields = Object.fromEntries(new URLSearchParams(request.body));
      return twilio.validateRequest(key.secret, request.headers["x-twilio-signature"], address(request), fields);
    },
    async sign(request, key) {
      const { getExpectedTwilioSignature } = (await import("twilio/lib/webhooks/webhooks.js")).default;
      const fields = Object.fromEntries(new URLSearchParams(request.body));
      return { headers: { "x-twilio-signature": getExpectedTwilioSignature(key.secret, address(request), fields) } };
    },
  },
  {
    provider: "twilio",
    scheme: "json-body",
    sdk: "twilio",
    query: "a=1",
    body: '{"id":"EV1","text":"hello"}',
    async verify(request, key) {
      const twilio = await sdk();
      return twilio.validateRequestWithBody(key.secret, request.headers["x-twilio-signature"], address(request), request.body);
    },
  },
];
