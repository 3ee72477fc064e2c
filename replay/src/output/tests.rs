//! Files are complete or absent, and failures name them.

use std::fs;
use std::io::Write;

use super::*;

#[test]
fn a_failure_keeps_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    fs::write(&path, "before").unwrap();
    let failed: anyhow::Result<()> = create(&path, |out| {
        out.write_all(b"half")?;
        anyhow::bail!("no")
    });
    assert!(failed.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_success_replaces_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    fs::write(&path, "before").unwrap();
    create(&path, |out| Ok(out.write_all(b"after")?)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"after");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// (Regression: the link was replaced, and the new file had the permissions that any has.)
#[test]
fn a_file_that_is_replaced_keeps_its_permissions_and_links() {
    use std::os::unix::fs::symlink;

    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("folder/file"), "before").unwrap();
    fs::set_permissions(at("folder/file"), Permissions::from_mode(0o640)).unwrap();
    symlink("folder/link", at("link")).unwrap();
    symlink("file", at("folder/link")).unwrap();
    let write = |text: &str| create(&at("link"), |out| Ok(out.write_all(text.as_bytes())?));
    write("after").unwrap();
    assert!(at("link").is_symlink() && at("folder/link").is_symlink());
    assert_eq!(fs::read(at("folder/file")).unwrap(), b"after");
    assert_eq!(at("folder/file").metadata().unwrap().mode() & 0o777, 0o640);
    // A link to a file that is not there yet.
    fs::remove_file(at("folder/file")).unwrap();
    write("new").unwrap();
    assert_eq!(fs::read(at("folder/file")).unwrap(), b"new");
    let two = [at("link"), at("folder/file")];
    fs::remove_file(at("folder/file")).unwrap();
    assert!(claim([], two.iter().map(|path| &**path)).is_err(), "they are the same file");
    symlink("circle", at("circle")).unwrap();
    assert!(create(&at("circle"), |_| Ok(())).is_err());
}

#[test]
fn a_file_of_somebody_else_is_not_replaced_under_a_default_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    assert_eq!(check_default(&path, "a trace", |_| false).map_err(drop), Ok(()));
    fs::write(&path, "mine").unwrap();
    assert_eq!(check_default(&path, "a trace", |_| true).map_err(drop), Ok(()));
    let told = check_default(&path, "a trace", |_| false).unwrap_err().to_string();
    assert!(told.ends_with("out is there already, and is not a trace: name a file with -o"));
}

/// SIGKILL left it behind. The new file has the permissions that any has.
#[test]
#[cfg(target_os = "linux")]
fn an_unfinished_file_has_no_name() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let names = || fs::read_dir(directory.path()).unwrap().count();
    let (path, other) = (directory.path().join("out"), directory.path().join("other"));
    let left = create(&path, |out| {
        out.write_all(b"half")?;
        out.flush()?;
        Ok(names())
    });
    let is_possible = unnamed::create(directory.path()).is_ok();
    assert_eq!(left.unwrap(), usize::from(!is_possible));
    fs::write(&other, "").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
    assert_eq!((mode(&path), names()), (mode(&other), 2));
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    // A link of our own to the device: if the test fails, only the link is replaced.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let error = create(&path, |out| Ok(out.write_all(b"text")?)).unwrap_err();
    let expected = format!("{} cannot be written: No space left", path.display());
    assert!(format!("{error:#}").starts_with(&expected), "{error:#}");
    assert!(!path.metadata().unwrap().is_file());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_file_without_disk_space_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let full: anyhow::Result<()> =
        create(&path, |_| Err(io::Error::from(ErrorKind::StorageFull).into()));
    let error = full.unwrap_err();
    assert!(format!("{error:#}").starts_with(&format!("{} cannot be written: ", path.display())));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_missing_directory_is_named() {
    let error = create(Path::new("/no/such/directory/out"), |_| Ok(())).unwrap_err();
    let cause = io::Error::from_raw_os_error(libc::ENOENT);
    assert_eq!(format!("{error:#}"), format!("/no/such/directory/out cannot be written: {cause}"));
}

/// (Regression: a negative number was one, and was borrowed, which is undefined.)
#[test]
fn a_descriptor_is_a_number_without_a_sign() {
    let number = |text: &str| {
        let of = ["/dev/fd/", "/proc/self/fd/"]
            .map(|folder| descriptor(Path::new(folder).join(text).as_path()));
        assert_eq!(of[0], of[1]);
        of[0]
    };
    assert_eq!(["0", "1", "007"].map(number), [Some(0), Some(1), Some(7)]);
    for text in ["-1", "-0", "+1", "", " 1", "1/", "1x", "99999999999"] {
        assert_eq!(number(text), None, "{text:?}");
    }
    let error = create(Path::new("/dev/fd/-1"), |_| Ok(())).unwrap_err();
    assert!(format!("{error:#}").starts_with("/dev/fd/-1 cannot be written: "), "{error:#}");
}
