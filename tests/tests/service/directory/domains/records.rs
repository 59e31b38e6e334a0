//! The DNS records that a domain needs: their states, and the DKIM key.

use serde_json::Value;

use super::{EXAMPLE, TestEnv, read, release, text};

/// Returns a domain's records by kind.
fn records(domain: &Value) -> Vec<(&str, &Value)> {
    let records = domain["records"].as_array().unwrap().iter();
    records.map(|one| (text(one, "kind"), one)).collect()
}

#[tokio::test]
async fn each_record_is_reported_separately_as_true_false_or_unknown() {
    let env = TestEnv::start().await;
    let ada = env.service.person("ada").await;
    let active = env.active(&ada, EXAMPLE).await;
    let wanted: Vec<(&str, &str, &str)> = records(&active)
        .into_iter()
        .map(|(kind, one)| (kind, text(one, "host"), text(one, "value")))
        .collect();
    let kinds: Vec<&str> = wanted.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, ["MX", "SPF", "DKIM", "DMARC"]);
    assert_eq!(wanted[0].1, EXAMPLE);
    assert_eq!(wanted[1].1, EXAMPLE);
    let selector = wanted[2].1.strip_suffix("._domainkey.ada.example").unwrap();
    assert!(!selector.is_empty());
    assert!(
        wanted[2].2.starts_with("v=DKIM1; k=rsa; p="),
        "{}",
        wanted[2].2
    );
    assert_eq!(wanted[3].1, "_dmarc.ada.example");
    assert!(
        wanted[3].2.starts_with("v=DMARC1; p=quarantine"),
        "{}",
        wanted[3].2
    );

    // MX and SPF records have the same name, and a server failure affects the whole name.
    let states = [Some(true), Some(false), None];
    for (mx, spf) in states
        .iter()
        .flat_map(|mx| states.iter().map(move |spf| (*mx, *spf)))
        .filter(|(mx, spf)| mx.is_none() == spf.is_none())
    {
        for dkim in states {
            for dmarc in states {
                let expected = [mx, spf, dkim, dmarc];
                env.dns.clear();
                // The MX record is added to the others at its name, so it comes last.
                for ((kind, host, value), state) in wanted.iter().zip(expected).rev() {
                    match state {
                        Some(true) if *kind == "MX" => env.dns.also_mx(host, value),
                        Some(true) => env.dns.txt(host, &pieces(value)),
                        Some(false) => {}
                        None => env.dns.servfail(host),
                    }
                }
                let told = read(&ada, EXAMPLE).await.succeeds(200);
                let ok: Vec<Option<bool>> = records(&told)
                    .into_iter()
                    .map(|(_, one)| one["ok"].as_bool())
                    .collect();
                assert_eq!(ok, expected, "{expected:?}");
            }
        }
    }
}

/// Returns a text as TXT strings of at most 255 characters each.
fn pieces(value: &str) -> Vec<&str> {
    let bytes = value.as_bytes().chunks(200);
    bytes.map(|one| std::str::from_utf8(one).unwrap()).collect()
}

#[tokio::test]
async fn the_key_of_a_released_domain_is_deleted_and_never_reused() {
    let env = TestEnv::start().await;
    let service = &env.service;
    let ada = service.person("ada").await;
    let key = |domain: &Value| {
        let (_, record) = records(domain)[2];
        let (host, value) = (text(record, "host"), text(record, "value"));
        let (_, key) = value.split_once("p=").unwrap();
        (host.to_owned(), key.to_owned())
    };
    let (host, first) = key(&env.active(&ada, EXAMPLE).await);
    let kept = |rows: Vec<String>, key: &str| rows.iter().any(|row| row.contains(key));
    assert!(kept(service.dump().await, &first));
    release(&ada, EXAMPLE).await.succeeds(200);
    assert!(!kept(service.dump().await, &first));
    env.dns.clear();
    let (other_host, second) = key(&env.active(&ada, EXAMPLE).await);
    assert_ne!(first, second);
    assert_ne!(
        host, other_host,
        "what is published of the first is not mistaken for it"
    );
}
