const sdk = async () => (await import("smartcar")).default;

export default {
  provider: "smartcar",
  sdk: "smartcar",
  unchecked: { "value repeated in the body": "it writes the JSON again before it checks it" },
  ascii: "it writes the JSON again before it checks it",
  async verify(request, key) {
    return (await sdk()).verifyPayload(key.secret, request.headers["sc-signature"], JSON.parse(request.body));
  },
  async sign(request, key) {
    return { headers: { "sc-signature": (await sdk()).hashChallenge(key.secret, request.body) } };
  },
};
