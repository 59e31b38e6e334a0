use super::*;

#[test]
fn the_drivers_of_both_versions_are_listed_in_order() {
    let v2_3 = "a = b\npassdb {\n  args = /x\n  driver = sql\n}\npassdb {\n  args = dovecot\n  driver = pam\n}\nuserdb {\n  driver = passwd\n}\n";
    assert_eq!(passdbs(v2_3), ["sql", "pam"]);
    let v2_4 = "passdb passwd-file {\n  passwd_file_path = /x\n}\npassdb other {\n  driver = ldap\n}\nuserdb sql {\n}\n";
    assert_eq!(passdbs(v2_4), ["passwd-file", "ldap"]);
}

#[test]
fn the_passwd_files_of_both_versions_are_listed_once() {
    let v2_3 = "passdb {\n  args = scheme=CRYPT username_format=%u /etc/dovecot/users\n  driver = passwd-file\n}\n\
        userdb {\n  args = username_format=%u /etc/dovecot/users\n  driver = passwd-file\n}\n\
        userdb {\n  args = /etc/dovecot/%d/users\n  driver = passwd-file\n}\nuserdb {\n  args = /x\n  driver = sql\n}\n";
    assert_eq!(passwd_files(v2_3), [PathBuf::from("/etc/dovecot/users")]);
    let v2_4 = "passdb passwd-file {\n  passwd_file_path = /etc/dovecot/users\n}\nuserdb static {\n  fields {\n    uid = 999\n  }\n}\n";
    assert_eq!(passwd_files(v2_4), [PathBuf::from("/etc/dovecot/users")]);
    assert_eq!(passdbs(v2_4), ["passwd-file"]);
}

#[test]
fn the_fields_of_a_user_are_read_from_the_lookup_of_both_versions() {
    let v2_3 = "field\tvalue\nuid\t1000\nhome\t/home/ada\nmail\tmaildir:~/Maildir\n";
    let user = MailUser::parse(v2_3);
    assert_eq!(
        (user.uid.as_str(), user.home.as_str()),
        ("1000", "/home/ada")
    );
    assert_eq!(user.mail, "maildir:~/Maildir");
    let v2_4 = "field\tvalue\nuid\tvmail\nhome\t\nmail_path\t/srv/ann/mail\n";
    let user = MailUser::parse(v2_4);
    assert_eq!((user.uid.as_str(), user.home.as_str()), ("vmail", ""));
    assert_eq!(user.mail, "/srv/ann/mail");
}

#[test]
fn a_format_without_a_domain_is_recognized() {
    for format in ["%n", "%Ln", "%{user | username | lower}", "%{username}"] {
        assert!(is_without_domain(format), "{format}");
    }
    for format in [
        "%u",
        "%Lu",
        "%n@%d",
        "%Ln@%Ld",
        "%{user | lower}",
        "%{user|username}@%{user|domain}",
    ] {
        assert!(!is_without_domain(format), "{format}");
    }
}

#[test]
fn a_password_in_a_database_url_is_quoted_for_dovecot_2_4() {
    let lookup = Lookup::Postgres("postgres://mail:a%22b%5C@db.example/latchmail".into());
    let text = database_2_4(&lookup).unwrap();
    assert!(text.contains(r#"password = "a\"b\\""#), "{text}");
    assert!(text.contains(r#"host = "db.example""#), "{text}");
}
