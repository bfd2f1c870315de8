// The SDK makes requests for tests. The secret is the private key of a merchant.
async function gateway(key) {
  const { default: braintree } = await import("braintree");
  const environment = braintree.Environment.Sandbox;
  return new braintree.BraintreeGateway({ environment, merchantId: "merchant", publicKey: "public", privateKey: key.secret });
}

export default {
  provider: "braintree",
  sdk: "braintree",
  unchecked: { "value non-ASCII in form bt_payload": "a payload is base64; it hashes other characters in an encoding of its own" },
  params: { public_key: "public" },
  type: "check",
  covered: ["PG5vdGlmaWNhdGlvb"], // the beginning of the payload
  async verify(request, key) {
    const fields = new URLSearchParams(request.body);
    // parse reads the payload, too, which must be base64 of XML; it checks the signature with this.
    return (await gateway(key)).webhookNotification.validateSignature(fields.get("bt_signature"), fields.get("bt_payload")) === null;
  },
  async sign(request, key) {
    const fields = (await gateway(key)).webhookTesting.sampleNotification("subscription_canceled", request.id);
    return { body: String(new URLSearchParams(fields)), headers: { "content-type": "application/x-www-form-urlencoded" } };
  },
};
