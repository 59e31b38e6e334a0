//! Reads the expiry time of a TLS server's certificate. Sends no data after the TLS handshake.

use std::fmt::Display;
use std::io;

use latchmail_core::clock::Timestamp;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::dns::normalize_host;
use crate::endpoint::tls_connector;

/// Performs a TLS handshake on `stream`, and returns the time at which the certificate of the
/// server expires. `server` is a host name or an IP address.
///
/// # Errors
/// Returns an error if the handshake fails, for example because the certificate is expired, not
/// trusted, or not valid for `server`.
pub async fn certificate_expiry(stream: TcpStream, server: &str) -> io::Result<Timestamp> {
    // `normalize_host` rejects an IP address, so an IP address stays unchanged.
    let ascii = normalize_host(server).unwrap_or_else(|_| server.to_owned());
    let name = ServerName::try_from(ascii).map_err(invalid)?;
    let tls = tls_connector(server).map_err(io::Error::other)?;
    let stream = tls.connect(name, stream).await?;
    let (_, connection) = stream.get_ref();
    let chain = connection.peer_certificates().unwrap_or_default();
    // The first certificate is the certificate of the server.
    let certificate = chain
        .first()
        .ok_or_else(|| invalid("the server sent no certificate"))?;
    not_after(certificate)
}

/// Returns the time at which a certificate expires. `certificate` is in DER.
///
/// # Errors
/// Returns an error if the certificate is invalid.
pub fn not_after(certificate: &[u8]) -> io::Result<Timestamp> {
    let certificate = Certificate::from_der(certificate).map_err(invalid)?;
    let end = certificate.tbs_certificate.validity.not_after;
    let millis = i64::try_from(end.to_unix_duration().as_millis()).unwrap_or(i64::MAX);
    Ok(Timestamp::from_millis(millis))
}

fn invalid(reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// A certificate of openssl, in DER and base64.
    const CERTIFICATE: &str = "MIIBijCCATGgAwIBAgIUMpsQnkdieyWi7uHOHZxm0KFV2qUwCgYIKoZIzj0EAwIwGzEZMBcGA1UEAwwQbWFpbC5leGFtcGxlLm9yZzAeFw0yNjExMjYxMzA2MTVaFw0zNjExMjMxMzA2MTVaMBsxGTAXBgNVBAMMEG1haWwuZXhhbXBsZS5vcmcwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASE69S4ZEosW3CW3KG5pLaYa8nD1FTE8V515PK5AhcKxsfOW3dEPs4X491GELT+y5jd/DEFbtHj4Tiet5khGs5To1MwUTAdBgNVHQ4EFgQUDsJKRMlpb0xV+uGI/LomO2GIA8QwHwYDVR0jBBgwFoAUDsJKRMlpb0xV+uGI/LomO2GIA8QwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiB4DkpjXazY+w1wO9zcf0hHDqXZSxm/v+EhblO/w4JIfgIgQ3dqbg39h9WpanEH+XOKjHRNjh18BycOIldWzqb0Hhg=";

    #[test]
    fn the_expiry_of_a_certificate_is_its_field_not_after() {
        let certificate = STANDARD.decode(CERTIFICATE).unwrap();
        let expected = Timestamp::from_millis(2_111_058_375_000);
        assert_eq!(not_after(&certificate).unwrap(), expected);
        assert!(not_after(b"not a certificate").is_err());
    }
}
