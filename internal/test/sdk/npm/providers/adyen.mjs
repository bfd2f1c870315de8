const validator = async () => {
  const { default: HmacValidator } = await import("@adyen/api-library/lib/src/utils/hmacValidator.js");
  return new (HmacValidator.default ?? HmacValidator)();
};
const itemOf = (body) => JSON.parse(body).notificationItems[0].NotificationRequestItem;

const payments = {
  provider: "adyen",
  sdk: "@adyen/api-library",
  async verify(request, key) {
    return (await validator()).validateHMAC(itemOf(request.body), key.secret);
  },
  async sign(request, key) {
    const document = JSON.parse(request.body);
    const item = document.notificationItems[0].NotificationRequestItem;
    item.additionalData = { ...item.additionalData, hmacSignature: (await validator()).calculateHmac(item, key.secret) };
    return { body: JSON.stringify(document) };
  },
};

export default [
  { ...payments, covered: ["evt_"] }, // the beginning of pspReference
  {
    ...payments,
    variant: "fields",
    // The fields of Adyen's own notifications, of which the signature covers the first eight.
    body: JSON.stringify({
      live: "false",
      notificationItems: [
        {
          NotificationRequestItem: {
            pspReference: "7914073381342284",
            originalReference: "",
            merchantAccountCode: "TestMerchant",
            merchantReference: "TestPayment-1407325143704",
            amount: { value: 1130, currency: "EUR" },
            eventCode: "AUTHORISATION",
            success: "true",
            eventDate: "2019-05-06T17:15:34.121+02:00",
            paymentMethod: "visa",
            additionalData: {},
          },
        },
      ],
    }),
    covered: ["7914073381342284", "TestMerchant", "TestPayment-1407325143704", "1130", "EUR", "AUTHORISATION", "true"],
  },
  {
    provider: "adyen",
    scheme: "platform-body",
    sdk: "@adyen/api-library",
    async verify(request, key) {
      return (await validator()).validateHMACSignature(key.secret, request.headers.hmacsignature, request.body);
    },
    async sign(request, key) {
      return { headers: { hmacsignature: (await validator()).calculateHmac(request.body, key.secret) } };
    },
  },
];
