//! Checks challenges and verifiers of Proof Key for Code Exchange (PKCE, RFC 7636). Only the method
//! S256 is supported.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The length of a challenge, in characters. A challenge is a SHA-256 hash in base64url without
/// padding.
const CHALLENGE_LENGTH: usize = 43;
const VERIFIER_LENGTHS: std::ops::RangeInclusive<usize> = 43..=128;

/// Returns `true` if the text has the form of a challenge.
pub(crate) fn is_challenge(challenge: &str) -> bool {
    challenge.len() == CHALLENGE_LENGTH
        && URL_SAFE_NO_PAD
            .decode(challenge)
            .is_ok_and(|hash| hash.len() == 32)
}

/// Returns `true` if the verifier is well-formed and the challenge is the hash of the verifier.
pub(crate) fn verifies(verifier: &str, challenge: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let made = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    VERIFIER_LENGTHS.contains(&verifier.len())
        && verifier.bytes().all(unreserved)
        && bool::from(made.as_bytes().ct_eq(challenge.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 7636, appendix B.
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    #[test]
    fn a_challenge_is_verified_by_what_it_was_made_of_alone() {
        assert!(is_challenge(CHALLENGE));
        assert!(verifies(VERIFIER, CHALLENGE));
        for other in [CHALLENGE, "", &VERIFIER[1..], &format!("{VERIFIER}A")] {
            assert!(!verifies(other, CHALLENGE), "{other}");
        }
    }

    #[test]
    fn what_is_too_short_to_be_a_verifier_verifies_nothing() {
        let short = "short";
        let made = URL_SAFE_NO_PAD.encode(Sha256::digest(short));
        assert!(is_challenge(&made));
        assert!(!verifies(short, &made));
        let blank = "a".repeat(42) + " ";
        let made = URL_SAFE_NO_PAD.encode(Sha256::digest(&blank));
        assert!(!verifies(&blank, &made));
    }

    #[test]
    fn what_is_no_hash_is_no_challenge() {
        for challenge in [
            "",
            "abc",
            &format!("{CHALLENGE}="),
            &"!".repeat(43),
            VERIFIER,
        ] {
            assert_eq!(
                is_challenge(challenge),
                challenge == VERIFIER,
                "{challenge}"
            );
        }
    }
}
