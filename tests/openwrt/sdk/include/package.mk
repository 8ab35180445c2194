# make install-NAME DEST=...: the files. make show-NAME: its metadata, one KEY=value a line.
# make prepare PKG_BUILD_DIR=...: the sources.
PKG_BUILD_DIR ?= $(BUILD_DIR)/$(PKG_NAME)-$(PKG_VERSION)

define field
	@printf '%s=%s\n' '$(1)' '$(strip $(2))'

endef

define BuildPackage
$(eval $(Package/$(1)))
install-$(1):
	$$(call Package/$(1)/install,$$(DEST))
show-$(1):
	$$(foreach f,PKG_NAME PKG_VERSION PKG_RELEASE PKG_SOURCE PKG_HASH PKG_LICENSE PKG_LICENSE_FILES \
		PKG_BUILD_DEPENDS PKG_FILE_DEPENDS PKG_FIXUP DEPENDS USERID BUILDONLY MAKE_FLAGS,$$(call field,$$(f),$$($$(f))))
	$$(foreach f,$$(Package/$(1)/conffiles),$$(call field,conffile,$$(f)))
endef

prepare:
	$(call Build/Prepare)
