const subject = (algorithm, params) => {
  const sdk = async (key) => {
    const { default: cloudinary } = await import("cloudinary");
    cloudinary.v2.config({ api_secret: key.secret, signature_algorithm: algorithm });
    return cloudinary.v2.utils;
  };
  return {
    provider: "cloudinary",
    scheme: "sha1",
    sdk: "cloudinary",
    variant: algorithm,
    params,
    age: "150m", // the SDK accepts two hours
    async verify(request, key) {
      const { "x-cld-timestamp": timestamp, "x-cld-signature": signature } = request.headers;
      return (await sdk(key)).verifyNotificationSignature(request.body, timestamp, signature);
    },
    async sign(request, key) {
      const timestamp = Math.floor(request.now / 1000);
      const options = { api_secret: key.secret, signature_algorithm: algorithm };
      const signature = (await sdk(key)).webhook_signature(request.body, timestamp, options);
      return { headers: { "x-cld-timestamp": timestamp, "x-cld-signature": signature } };
    },
  };
};

export default [subject("sha1"), subject("sha256", { algorithm: "sha256" })];
