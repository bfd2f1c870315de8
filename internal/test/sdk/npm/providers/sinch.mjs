// The whole of the SDK needs a package that it does not name.
const sdk = async () => (await import("../node_modules/@sinch/sdk-client/dist/utils/authorization.helper.js")).default;

const conversation = {
  provider: "sinch",
  sdk: "@sinch/sdk-client",
  signed: ["x-sinch-webhook-signature-nonce"],
  unchecked: { age: "the SDK has no clock" },
  async verify(request, key) {
    return (await sdk()).validateWebhookSignature(key.secret, request.headers, request.body);
  },
  async sign(request, key) {
    const { computeSignedData, calculateWebhookSignature } = await sdk();
    const timestamp = Math.floor(request.now / 1000);
    return {
      headers: {
        "x-sinch-webhook-signature-algorithm": "HmacSHA256",
        "x-sinch-webhook-signature-nonce": request.id,
        "x-sinch-webhook-signature-timestamp": timestamp,
        "x-sinch-webhook-signature": calculateWebhookSignature(computeSignedData(request.body, request.id, timestamp), key.secret),
      },
    };
  },
};

const numbers = {
  provider: "sinch",
  scheme: "numbers",
  sdk: "@sinch/sdk-client",
  async verify(request, key) {
    return (await sdk()).validateSignatureHeader(key.secret, request.headers, request.body);
  },
};

export default [conversation, numbers];
