package selftest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// account makes an account that may do what `plumbline rbac` with these flags prints, and
// nothing else, and writes a kubeconfig of it into a folder. It returns that, and what
// takes the account away.
func account(ctx context.Context, client kubernetes.Interface, kubeconfig, dir string, flags ...string) (string, func(context.Context) error, error) {
	bin, err := program()
	if err != nil {
		return "", nil, err
	}
	text, err := exec.CommandContext(ctx, bin, append([]string{"rbac"}, flags...)...).Output()
	if err != nil {
		return "", nil, err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(text, role); err != nil {
		return "", nil, err
	}
	meta := metav1.ObjectMeta{Name: "tester", Namespace: metav1.NamespaceDefault}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tester"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	}
	if _, err := client.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", nil, err
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return "", nil, err
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", nil, err
	}
	hours := int64(2 * 3600)
	token, err := client.CoreV1().ServiceAccounts(meta.Namespace).CreateToken(ctx, meta.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}, metav1.CreateOptions{})
	if err != nil {
		return "", nil, err
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", nil, err
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{config.Contexts[config.CurrentContext].AuthInfo: {Token: token.Status.Token}}
	path := filepath.Join(dir, "kubeconfig")
	remove := func(ctx context.Context) error {
		for _, gone := range []error{
			client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}),
			client.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{}),
			client.CoreV1().ServiceAccounts(meta.Namespace).Delete(ctx, meta.Name, metav1.DeleteOptions{}),
		} {
			if gone != nil {
				return gone
			}
		}
		return nil
	}
	return path, remove, clientcmd.WriteToFile(*config, path)
}

// registering is the manifest of a dataplane that registers things with the API, and that
// forwards nothing: who proxies Services already goes on.
func registering(image string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {plural: things, singular: thing, kind: Thing}
  scope: Cluster
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: one}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: things.example.com}
webhooks:
- name: things.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail # nobody answers it: no thing is changed or removed while it is there
  clientConfig: {service: {namespace: kube-system, name: nobody}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [UPDATE, DELETE], resources: [things]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: registers, namespace: kube-system}
spec:
  selector: {matchLabels: {app: registers}}
  template:
    metadata: {labels: {app: registers}}
    spec: {containers: [{name: c, image: %q, imagePullPolicy: IfNotPresent}]}
`, image)
}

// registrations lists what is registered in a cluster.
func registrations(ctx context.Context, client kubernetes.Interface) (out []string, err error) {
	for _, path := range []string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apiregistration.k8s.io/v1/apiservices",
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
	} {
		text, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		var list struct {
			Items []struct{ Metadata metav1.ObjectMeta }
		}
		if err := yaml.Unmarshal(text, &list); err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			out = append(out, path+" "+o.Metadata.Name)
		}
	}
	return out, nil
}

func write(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
