// WeChat Pay has no SDK for Node; this is the one of the community.
export default {
  provider: "wechat-pay",
  sdk: "wechatpay-node-v3",
  signed: ["wechatpay-nonce"],
  unchecked: { age: "the package has no clock" },
  async verify(request, key) {
    const Pay = (await import("wechatpay-node-v3")).default;
    const { headers, body } = request;
    const serial = headers["wechatpay-serial"];
    Pay.certificates[serial] = key.public; // otherwise it fetches the certificates with the keys of a merchant
    const pay = new Pay({ appid: "app", mchid: "1", serial_no: "1", publicKey: "key", privateKey: "key" });
    return await pay.verifySign({
      timestamp: headers["wechatpay-timestamp"],
      nonce: headers["wechatpay-nonce"],
      signature: headers["wechatpay-signature"],
      serial,
      body,
    });
  },
};
