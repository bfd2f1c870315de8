// The SDK only signs requests to the API; Solidgate signs its webhooks in the same way, with keys for webhooks.
const merchant = "wh_pk_1";
const signature = async (request, key) => {
  const { Api } = (await import("@solidgate/node-sdk")).default;
  return new Api(request.headers.merchant, key.secret)._generateSignature(request.body);
};

export default {
  provider: "solidgate",
  sdk: "@solidgate/node-sdk",
  documented: true,
  header: { Merchant: merchant },
  async verify(request, key) {
    return request.headers.signature === (await signature(request, key));
  },
  async sign(request, key) {
    return { headers: { signature: await signature(request, key) } };
  },
};
