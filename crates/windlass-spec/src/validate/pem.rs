//! Certificates in PEM.
//!
//! Input: text. Output: what is wrong with it, as far as its form tells.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// DER of a certificate begins with a sequence whose length has two bytes.
const SEQUENCE: [u8; 2] = [0x30, 0x82];

/// Why a text is not one or more certificates.
pub(super) fn fault(text: &str) -> Option<&'static str> {
    if text.contains("PRIVATE KEY-----") {
        return Some("it holds a private key");
    }
    let mut rest = text;
    let mut certificates = 0;
    while let Some(start) = rest.find(BEGIN) {
        let body = &rest[start + BEGIN.len()..];
        let Some(end) = body.find(END) else { return Some("a certificate has no end line") };
        let compact: String = body[..end].split_whitespace().collect();
        let Ok(der) = STANDARD.decode(compact) else { return Some("a certificate is no base64") };
        if !is_certificate(&der) {
            return Some("what it holds is no certificate");
        }
        certificates += 1;
        rest = &body[end + END.len()..];
    }
    (certificates == 0).then_some("there is no certificate in it")
}

fn is_certificate(der: &[u8]) -> bool {
    let [first, second, high, low, ..] = der else { return false };
    [*first, *second] == SEQUENCE && der.len() == 4 + usize::from(u16::from_be_bytes([*high, *low]))
}
