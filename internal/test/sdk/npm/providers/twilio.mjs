const sdk = async () => (await import("twilio")).default;
// fields returns a form as frameworks read it: a repeated field is an array.
const fields = (request) => {
  const form = new URLSearchParams(request.body);
  return Object.fromEntries([...form.keys()].map((name) => [name, form.getAll(name).length > 1 ? form.getAll(name) : form.get(name)]));
};
const address = (request) => request.url + (request.query ? `?${request.query}` : "");

export default [
  {
    provider: "twilio",
    scheme: "form",
    sdk: "twilio",
    query: "a=1&b=%20x",
    async verify(request, key) {
      const twilio = await sdk();
      return twilio.validateRequest(key.secret, request.headers["x-twilio-signature"], address(request), fields(request));
    },
    async sign(request, key) {
      const { getExpectedTwilioSignature } = (await import("twilio/lib/webhooks/webhooks.js")).default;
      return { headers: { "x-twilio-signature": getExpectedTwilioSignature(key.secret, address(request), fields(request)) } };
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
