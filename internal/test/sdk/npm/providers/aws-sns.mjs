import { createRequire } from "node:module";
const require = createRequire(import.meta.url);

// fresh returns a validator without the certificates that it has kept.
function fresh() {
  delete require.cache[require.resolve("sns-validator")];
  return new (require("sns-validator"))();
}

const subject = (scheme) => ({
  provider: "aws-sns",
  scheme,
  sdk: "sns-validator",
  params: { topic_arn: "arn:aws:sns:us-east-1:123456789012:orders" },
  covered: ["evt_"], // the beginning of MessageId
  age: "90m", // SNS retries for an hour
  unchecked: { age: "the package has no clock" },
  documents: (request, key) => {
    let address;
    try {
      address = JSON.parse(request.body).SigningCertURL;
    } catch {}
    return address ? { [address]: key.certificate } : {};
  },
  async verify(request) {
    const message = JSON.parse(request.body);
    await new Promise((resolve, reject) => fresh().validate(message, (error) => (error ? reject(error) : resolve())));
    return true;
  },
});

export default [subject("v2"), subject("v1")];
