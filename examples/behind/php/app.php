<?php // An application behind hookonce: it does the work of each webhook-id once.
$body = file_get_contents('php://input', length: (1 << 20) + 1); // the raw body: the signature covers its bytes
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$at = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
$key = base64_decode(preg_replace('/^whsec_/', '', getenv('APP_SECRET')));
$right = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$at.$body", $key, true));
$fits = false;
foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $signature) {
    $fits = hash_equals($right, $signature) || $fits;
}
if (strlen($body) > 1 << 20) {
    http_response_code(413);
    exit;
}
if (!$fits || !ctype_digit($at) || abs(time() - (int) $at) > 300) {
    http_response_code(401);
    exit;
}
if (json_decode($body) === null) {
    http_response_code(400);
    exit;
}
try {
    $db = new PDO(getenv('PDO_DSN')); // an exception undoes the transaction
    $db->beginTransaction();
    $first = $db->prepare('INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING');
    $first->execute([$id]);
    if ($first->rowCount()) { // else the work was done before: the answer is 200 again
        $db->prepare("INSERT INTO work VALUES (?, decode(?, 'base64'))")->execute([$id, base64_encode($body)]);
    }
    $db->commit();
} catch (PDOException $error) {
    error_log($error->getMessage());
    http_response_code(503); // hookonce sends it again
}
