//! The comparison of a host with the database and the other hosts at its start.

use latchmail_tests::{Service, wait_until};

use super::{current, in_state, kids};

/// Another key.
const FOREIGN: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

#[tokio::test]
async fn a_host_that_differs_from_a_running_host_does_not_start() {
    let service = Service::start().await;
    let file = service.state.join("latchmail.key");
    let own = std::fs::read_to_string(&file).unwrap();
    let name = service.app().host_name.clone();
    let kid = current(&service).await;
    let refusal = async |key: Option<&str>, changes: &str| {
        let refused = service.try_another_host(key, changes).await;
        refused.unwrap_err().to_string()
    };
    let error = refusal(Some(&own), "base_url = 'http://other.test'").await;
    for mention in [&name, "http://other.test", "http://service.test"] {
        assert!(error.contains(mention), "{error}");
    }
    let error = refusal(Some(FOREIGN), "").await;
    for mention in [&name, &kid, "copy the key file"] {
        assert!(error.contains(mention), "{error}");
    }
    let error = refusal(None, "").await;
    assert!(
        error.contains("does not exist") && error.contains(&kid),
        "{error}"
    );
    // A refused host leaves nothing behind.
    assert_eq!(service.app().directory.hosts.list().await.unwrap().len(), 1);

    // The same key at another place in the file is no difference.
    let other = service
        .try_another_host(Some(&format!("{own}{FOREIGN}\n")), "")
        .await;
    other.unwrap().stop().await;
    assert_eq!(current(&service).await, kid);
}

#[tokio::test]
async fn a_new_first_key_is_pending_with_other_hosts_and_current_without() {
    let mut service = Service::start().await;
    let file = service.state.join("latchmail.key");
    let own = std::fs::read_to_string(&file).unwrap();
    let kid = current(&service).await;
    let new = format!("{FOREIGN}\n{own}");
    let other = service.try_another_host(Some(&new), "").await.unwrap();
    assert_eq!(current(&service).await, kid);
    let pending = in_state(&service, "pending").await;
    assert_eq!(pending, kids(&other.key_file())[..1]);
    std::fs::write(&file, &new).unwrap();
    service.operator("key rotate", "").await.succeeds();
    assert_eq!(current(&service).await, pending[0]);
    other.stop().await;

    // As in earlier versions: a new line at the top and a restart.
    service.stop().await;
    let another = "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg=";
    std::fs::write(&file, format!("{another}\n{new}")).unwrap();
    service.restart().await;
    let first = kids(&file).remove(0);
    assert_eq!(current(&service).await, first);
    // An old file does not make an earlier key current again.
    service.stop().await;
    std::fs::write(&file, format!("{new}\n{another}\n")).unwrap();
    service.restart().await;
    assert_eq!(current(&service).await, first);
    wait_until("the host uses the current key", async || {
        service.app().auth.keys().current().kid == first
    })
    .await;
}
