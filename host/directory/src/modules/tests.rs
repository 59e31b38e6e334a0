use super::*;
use crate::testing::{Fresh, NOW, both};

fn version<'a>(module: &'a str, digest: &'a str) -> NewVersion<'a> {
    NewVersion {
        module,
        digest,
        version: "1.0.0",
        component: digest.as_bytes(),
        source: false,
        artifact: None,
    }
}

async fn install(fresh: &Fresh, set: &[NewVersion<'_>], keep: u32) {
    let origin = Origin::operator();
    let installed = fresh.directory.modules.install(set, keep, NOW, &origin);
    installed.await.unwrap();
}

async fn digests(fresh: &Fresh, module: &str) -> Vec<String> {
    let versions = fresh.directory.modules.versions(module).await.unwrap();
    versions.into_iter().map(|v| v.digest).collect()
}

async fn serving(fresh: &Fresh, module: &str) -> Option<(String, bool)> {
    let installed = fresh.directory.modules.installed().await.unwrap();
    let found = installed.into_iter().find(|one| one.module == module);
    found.map(|one| (one.digest, one.enabled))
}

async fn what_was_installed_last_serves_and_earlier_versions_are_kept(fresh: Fresh) {
    for digest in ["a", "b", "c"] {
        install(&fresh, &[version("mail", digest)], 10).await;
    }
    assert_eq!(serving(&fresh, "mail").await, Some(("c".into(), true)));
    assert_eq!(digests(&fresh, "mail").await, ["c", "b", "a"]);
    let component = fresh
        .directory
        .modules
        .component("mail", "a")
        .await
        .unwrap();
    assert_eq!(component.as_deref(), Some(&b"a"[..]));
    assert_eq!(
        fresh
            .directory
            .modules
            .component("mail", "d")
            .await
            .unwrap(),
        None
    );
    install(&fresh, &[version("mail", "a")], 10).await;
    assert_eq!(digests(&fresh, "mail").await, ["a", "c", "b"]);
}

async fn of_many_versions_the_newest_are_kept_the_one_that_serves_and_the_one_before_it(
    fresh: Fresh,
) {
    for digest in ["a", "b", "c"] {
        install(&fresh, &[version("mail", digest)], 10).await;
    }
    let versions = fresh.directory.modules.versions("mail").await.unwrap();
    let (now, origin) = (NOW, Origin::operator());
    let back = fresh
        .directory
        .modules
        .roll_back("mail", &versions[2], now, &origin);
    back.await.unwrap();
    assert_eq!(serving(&fresh, "mail").await, Some(("a".into(), true)));
    install(&fresh, &[version("other", "x")], 2).await;
    install(&fresh, &[version("mail", "d")], 2).await;
    assert_eq!(digests(&fresh, "mail").await, ["d", "c", "a"]);
    assert_eq!(digests(&fresh, "other").await, ["x"]);
    install(&fresh, &[version("mail", "e")], 2).await;
    assert_eq!(digests(&fresh, "mail").await, ["e", "d"]);
}

/// Returns the digests of the versions that served, the current version last.
async fn served(fresh: &Fresh) -> Vec<String> {
    let versions = fresh.directory.modules.versions("mail").await.unwrap();
    let mut served: Vec<_> = versions
        .into_iter()
        .filter(|v| v.served.is_some())
        .collect();
    served.sort_by_key(|version| version.served);
    served.into_iter().map(|version| version.digest).collect()
}

async fn roll_back(fresh: &Fresh, digest: &str) {
    let versions = fresh.directory.modules.versions("mail").await.unwrap();
    let to = versions.iter().find(|v| v.digest == digest).unwrap();
    let origin = Origin::operator();
    let back = fresh.directory.modules.roll_back("mail", to, NOW, &origin);
    back.await.unwrap();
}

async fn what_served_before_is_told_without_what_was_rolled_away_from(fresh: Fresh) {
    for digest in ["a", "b", "c"] {
        install(&fresh, &[version("mail", digest)], 10).await;
    }
    assert_eq!(served(&fresh).await, ["a", "b", "c"]);
    roll_back(&fresh, "b").await;
    assert_eq!(served(&fresh).await, ["a", "b"]);
    install(&fresh, &[version("mail", "d")], 10).await;
    assert_eq!(served(&fresh).await, ["a", "b", "d"]);
    roll_back(&fresh, "a").await;
    assert_eq!(served(&fresh).await, ["a"]);
    // Activating a version that was rolled back counts as a step forward.
    roll_back(&fresh, "c").await;
    assert_eq!(served(&fresh).await, ["a", "c"]);
    install(&fresh, &[version("mail", "a")], 10).await;
    assert_eq!(served(&fresh).await, ["c", "a"]);
}

async fn a_set_is_installed_whole(fresh: Fresh) {
    install(&fresh, &[version("mail", "a"), version("digest", "x")], 10).await;
    assert_eq!(serving(&fresh, "digest").await, Some(("x".into(), true)));
}

async fn what_the_operator_switched_off_stays_off(fresh: Fresh) {
    install(&fresh, &[version("mail", "a")], 10).await;
    let origin = Origin::operator();
    let off = fresh.directory.modules.switch("mail", false, NOW, &origin);
    off.await.unwrap();
    assert_eq!(serving(&fresh, "mail").await, Some(("a".into(), false)));
    let on = fresh.directory.modules.switch("mail", true, NOW, &origin);
    on.await.unwrap();
    assert_eq!(serving(&fresh, "mail").await, Some(("a".into(), true)));
}

async fn a_removed_module_is_gone_with_all_its_versions(fresh: Fresh) {
    install(&fresh, &[version("mail", "a"), version("other", "x")], 10).await;
    let origin = Origin::operator();
    fresh
        .directory
        .modules
        .remove("mail", false, NOW, &origin)
        .await
        .unwrap();
    assert_eq!(serving(&fresh, "mail").await, None);
    assert!(digests(&fresh, "mail").await.is_empty());
    assert_eq!(digests(&fresh, "other").await, ["x"]);
}

async fn the_configurations_file_is_remembered_until_another_is_seen(fresh: Fresh) {
    let own = NewVersion {
        source: true,
        ..version("mail", "a")
    };
    install(&fresh, &[own], 10).await;
    install(&fresh, &[version("mail", "b")], 10).await;
    let seen = async || {
        let all = fresh.directory.modules.installed().await.unwrap();
        all[0].source_digest.clone()
    };
    assert_eq!(seen().await.as_deref(), Some("a"));
    fresh
        .directory
        .modules
        .record_source("mail", "c")
        .await
        .unwrap();
    assert_eq!(seen().await.as_deref(), Some("c"));
}

async fn the_artifact_of_the_latest_installation_is_recorded(fresh: Fresh) {
    let artifact = Artifact {
        reference: "oci://registry.test/mail:1.0.0".into(),
        digest: "sha256:0".into(),
    };
    let from_registry = |digest| NewVersion {
        artifact: Some(&artifact),
        ..version("mail", digest)
    };
    install(&fresh, &[from_registry("a"), version("other", "a")], 10).await;
    install(&fresh, &[version("mail", "b")], 10).await;
    let recorded = async |module: &str| {
        let versions = fresh.directory.modules.versions(module).await.unwrap();
        let artifacts = versions
            .into_iter()
            .map(|one| one.reference.zip(one.artifact));
        artifacts.collect::<Vec<_>>()
    };
    let expected = Some((artifact.reference.clone(), artifact.digest.clone()));
    assert_eq!(recorded("mail").await, [None, expected.clone()]);
    assert_eq!(recorded("other").await, [None]);
    install(&fresh, &[from_registry("b")], 10).await;
    install(&fresh, &[version("mail", "a")], 10).await;
    assert_eq!(recorded("mail").await, [None, expected]);
}

both!(
    what_was_installed_last_serves_and_earlier_versions_are_kept,
    of_many_versions_the_newest_are_kept_the_one_that_serves_and_the_one_before_it,
    what_served_before_is_told_without_what_was_rolled_away_from,
    a_set_is_installed_whole,
    what_the_operator_switched_off_stays_off,
    a_removed_module_is_gone_with_all_its_versions,
    the_configurations_file_is_remembered_until_another_is_seen,
    the_artifact_of_the_latest_installation_is_recorded,
);
